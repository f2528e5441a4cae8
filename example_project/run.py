"""``python -m example_project.run``: the service in the foreground, with its worker and beat."""

from __future__ import annotations

import os
import re
import signal
import sys
import time

import django
from django.core.exceptions import ImproperlyConfigured

from . import service
from .processes import ProcessEndedError, Processes
from .terminal import Terminal

COLOURS = {"web": "cyan", "worker": "green", "beat": "magenta", "receiver": "blue"}
MAX_PORT = 65535
RECEIVER_DISTANCE = 10
"""The port of the receiver, relative to that of the service. It never changes, because webhooks keep it."""

PATIENCE_SECONDS = 15.0
"""Interval of the lines about a slow start."""
LEVELS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}


def main() -> int:
    terminal = Terminal()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        port = _port()
        receiver_port = _receiver_port(port)
        ports = {"PORT": str(port), "RECEIVER_PORT": str(receiver_port)}
        os.environ.update({**ports, "DJANGO_RUNSERVER_HIDE_WARNING": "true"})
        login = _prepare(terminal)
        return _run(terminal, port, receiver_port, login)
    except (ImproperlyConfigured, CannotRunError) as error:
        terminal.print_line(terminal.paint(f"{error}", "red"))
        return 1
    except KeyboardInterrupt:  # Nothing to stop yet.
        terminal.print_line("Stopped.")
        return 0


class CannotRunError(Exception):
    """The service cannot start. The message has the reason and the fix."""


def _port() -> int:
    text = os.environ.get("PORT") or "8000"
    if not (text.isdecimal() and 1 <= int(text) <= MAX_PORT):
        raise CannotRunError(f"PORT is {text!r}, but must be a number from 1 to {MAX_PORT}.")
    if not service.is_free(int(text)):
        raise CannotRunError(
            f"Port {text} is in use. Stop the other program, or choose another port: PORT=8001 make run"
        )
    return int(text)


def _receiver_port(port: int) -> int:
    """Return the port of the demonstration's receiver; 0 if it is not free, so that there is no receiver."""
    found = port + RECEIVER_DISTANCE
    return found if found <= MAX_PORT and service.is_free(found) else 0


def _prepare(terminal: Terminal) -> list[str]:
    """Migrate the database and return lines with the login of the console."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    django.setup()
    # These imports need configured settings.
    from django.conf import settings  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import DatabaseError, connections  # noqa: PLC0415

    from .console_login import USERNAME, ensure_login  # noqa: PLC0415

    terminal.print_line("Migrating the database …")
    try:
        call_command("migrate", verbosity=0, interactive=False)
        password, path = ensure_login(settings.VAR_DIR, os.environ.get("ADMIN_PASSWORD", ""))
    except DatabaseError as error:
        raise CannotRunError(f"The database cannot be used: {error}".rstrip()) from error
    finally:
        connections.close_all()
    known = f"{password}   (stored in {os.path.relpath(path)})" if path else "from ADMIN_PASSWORD"
    return [f"  user      {USERNAME}", f"  password  {known}"]


def _run(terminal: Terminal, port: int, receiver_port: int, login: list[str]) -> int:
    def show(name: str, line: str) -> None:
        if line:
            terminal.print_line(f"{terminal.paint(f'{name:<8} │', COLOURS[name])} {_coloured(terminal, line)}")

    with Processes(os.environ, show) as processes:
        try:
            for name, command in service.commands(port, receiver_port).items():
                processes.start(name, command)
            _await_web(terminal, processes, port)
            for line in ("", *_addresses(port, receiver_port), *login, "  Press Ctrl-C to stop.", ""):
                terminal.print_line(terminal.paint(line, "bold"))
            processes.wait()
        except ProcessEndedError as error:
            terminal.print_line(terminal.paint(f"{error}; stopping the others.", "red"))
            return 1
        except KeyboardInterrupt:
            terminal.print_line("Stopping after the requests in flight. Press Ctrl-C again to stop at once.")
            return _stop(terminal, processes)
    return 0


def _addresses(port: int, receiver_port: int) -> list[str]:
    site = f"http://{service.HOST}:{port}"
    receiver = f"on port {receiver_port}, for the customers to try their webhooks"
    return [
        f"  customers {site}/webhooks/   (sign up there, without staff)",
        f"  console   {site}/admin/",
        f"  receiver  {receiver if receiver_port else f'none, because port {port + RECEIVER_DISTANCE} is not free'}",
    ]


def _await_web(terminal: Terminal, processes: Processes, port: int) -> None:
    """Wait until the service answers, however slow the machine is. Raises ProcessEndedError if a process ends."""
    noted_at = started_at = time.monotonic()
    while not service.answers(port):
        processes.wait(0.1)
        if time.monotonic() - noted_at > PATIENCE_SECONDS:
            noted_at = time.monotonic()
            waited = noted_at - started_at
            terminal.print_line(f"Waiting for port {port} for {waited:.0f} s. Press Ctrl-C to stop.")


def _stop(terminal: Terminal, processes: Processes) -> int:
    try:
        processes.stop()
    except KeyboardInterrupt:
        processes.kill()
        terminal.print_line("Stopped at once. Requests that were in flight are repeated after the next start.")
        return 1
    terminal.print_line("Stopped.")
    return 0


def _coloured(terminal: Terminal, line: str) -> str:
    found = re.match(r"\d\d:\d\d:\d\d (\w+)", line)
    colour = LEVELS.get(found[1]) if found else None
    return terminal.paint(line, colour) if colour else line


if __name__ == "__main__":
    sys.exit(main())
