"""Server processes for the duration of a test run."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

START_TIMEOUT_SECONDS = 120
STOP_TIMEOUT_SECONDS = 15


class ServerMissingError(Exception):
    """The server is not installed. The message explains how to install it."""


def program(name: str, *directories: str, package: str) -> Path:
    """Return the path of a server's program, on PATH or in one of the directories."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *directories])
    if found := shutil.which(name, path=path):
        return Path(found)
    raise ServerMissingError(f"{name} was not found (Debian, Ubuntu: apt install {package})")


def free_port() -> int:
    """Return a free loopback port, below the range for outgoing connections."""
    for _ in range(100):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("Found no free port between 20000 and 32000.")


@contextmanager
def server_directory(prefix: str, *, user: str | None = None) -> Generator[Path]:
    """Yield a new directory owned by ``user``. Its path is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix=f"wh-{prefix}-", ignore_cleanup_errors=True) as directory:
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(directory, account.pw_uid, account.pw_gid)
        yield Path(directory)


def unprivileged_user() -> str | None:
    """Return the account for servers that refuse to run as root, or None without root."""
    return "nobody" if os.geteuid() == 0 else None


def account(user: str | None) -> dict[str, Any]:
    """Return the arguments for running a subprocess as another account, including its groups."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    directory: Path,
    ready: Callable[[], bool],
    env: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Generator[subprocess.Popen[bytes]]:
    """Run a server in the foreground, from its readiness to the end of the block."""
    log = directory / "server.log"
    with log.open("wb") as output, _started(command, directory, output, env, user) as process:
        try:
            _wait_until_ready(process, ready, log)
            yield process
        finally:
            _stop(process)


def listens(port: int) -> bool:
    """Return True if a loopback port accepts connections."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _started(
    command: Sequence[str | Path],
    directory: Path,
    output: BinaryIO,
    env: Mapping[str, str] | None,
    user: str | None,
) -> subprocess.Popen[bytes]:
    # A killed test run cannot clean up. The kernel then ends the server instead.
    setpriv = shutil.which("setpriv")
    prefix = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
    return subprocess.Popen(
        [*prefix, *command],
        cwd=directory,
        env={**os.environ, **(env or {})},
        **account(user),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            ending = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{process.args!r} did not start (exit status {process.poll()}):\n{ending}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
