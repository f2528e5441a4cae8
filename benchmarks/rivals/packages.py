"""Other packages that send webhooks, installed on first use and configured according to their documentation."""

from __future__ import annotations

import os
import subprocess
import time
import venv
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from ..progress import Progress
from ..receivers import Receiver
from ..workers import celery_worker, stopped

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / "var" / "rivals"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = HERE / "requirements.txt"
PROCESSES = 2
"""The number of cores of the machine for which the targets are."""


class NotInstallableError(Exception):
    """The packages cannot be installed; the message is that of pip."""


def install(progress: Progress) -> None:
    """Install the rivals into a separate environment, unless they are there. Raise NotInstallableError."""
    stamp = ENVIRONMENT / ".installed"
    if stamp.exists() and stamp.read_text() == REQUIREMENTS.read_text():
        return
    progress.step("installing the rivals")
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    command: list[str | Path] = [
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
        REQUIREMENTS,
    ]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    if answer.returncode:
        raise NotInstallableError(answer.stderr.strip().splitlines()[-1])
    stamp.write_text(REQUIREMENTS.read_text())


def deliver(package: str, receiver: Receiver, events: int, expected: int, progress: Progress) -> None:
    """Deliver events with a package, until their results are recorded.

    Raise RuntimeError unless each delivery arrived exactly once.
    """
    install(progress)
    project = Project(package, _new_database())
    project.run("-m", "django", "migrate", "--run-syncdb", "--verbosity", "0")
    progress.step("emitting")
    project.run("-m", "rival.fill", receiver.url, str(events))
    progress.step("delivering", expected)
    with _senders(project):
        _wait(project, receiver, expected, progress)
    signatures = {(request.target, request.signature) for request in receiver.requests()}
    if not receiver.count() == len(signatures) == expected:
        raise RuntimeError(
            f"{expected} requests were expected; {receiver.count()} arrived, {len(signatures)} of them different."
        )


@dataclass(frozen=True, slots=True)
class Project:
    """The project of a package."""

    package: str
    database_url: str

    @property
    def folder(self) -> Path:
        return HERE / self.package.replace("-", "_")

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"},
            "DJANGO_SETTINGS_MODULE": "rival.settings",
            "PYTHONPATH": str(self.folder),
            "BENCHMARK_DATABASE_URL": self.database_url,
        }

    def run(self, *arguments: str) -> str:
        answer = subprocess.run(
            [PYTHON, *arguments], check=False, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        if answer.returncode:
            raise RuntimeError(f"{self.package}: {' '.join(arguments)} failed: {answer.stderr.strip()[-1000:]}")
        return answer.stdout


def _new_database() -> str:
    """Return the URL of a new database on the same server."""
    url, name = os.environ["BENCHMARK_DATABASE_URL"], f"rival_{time.time_ns()}"
    if url.startswith("sqlite"):
        return f"{url}.{name}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    return f"{url.rpartition('/')[0]}/{name}"


@contextmanager
def _senders(project: Project) -> Generator[None]:
    with ExitStack() as stack:
        if project.package == "django-webhook":
            stack.enter_context(
                celery_worker(PROCESSES, app="rival", python=PYTHON, cwd=project.folder, env=project.environment)
            )
        else:
            for _ in range(PROCESSES):
                stack.enter_context(_relay(project))
        yield


@contextmanager
def _relay(project: Project) -> Generator[None]:
    """Run a sender of django-outbound-webhooks, which sends one delivery after another."""
    command: list[str | Path] = [PYTHON, "-m", "django", "deliver_events"]
    process = subprocess.Popen(
        command, cwd=project.folder, env=project.environment, stdout=subprocess.DEVNULL, start_new_session=True
    )
    with stopped(process):
        yield


def _wait(project: Project, receiver: Receiver, expected: int, progress: Progress) -> None:
    deadline = time.monotonic() + 600
    while receiver.count() < expected:
        progress.done(receiver.count())
        if time.monotonic() > deadline:
            raise RuntimeError(f"Only {receiver.count()} of {expected} deliveries were sent in 10 minutes.")
        time.sleep(0.1)
    while (recorded := int(project.run("-m", "rival.fill"))) != expected:
        if time.monotonic() > deadline:
            raise RuntimeError(f"Only {recorded} of {expected} deliveries were recorded.")
        time.sleep(0.5)
