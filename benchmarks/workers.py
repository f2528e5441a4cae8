"""Workers, started like those of a user, and the resources of their processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60
STOP_SECONDS = 60
CELERY_READY, COMMAND_READY = " ready.", "Webhooks are sent with the transport"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Worker:
    """A command that delivers, and its processes."""

    process: subprocess.Popen[bytes]
    log: Path

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its processes."""
        # Fields 14 and 15 of /proc/PID/stat; the first two are cut off here.
        return sum(int(stat[11]) + int(stat[12]) for stat in self._stats()) / TICKS_PER_SECOND

    def resident_bytes(self) -> int:
        """Return the memory of all its processes. Shared pages count for each of them."""
        return sum(int(stat[21]) for stat in self._stats()) * PAGE_BYTES

    def count(self, *texts: str) -> int:
        """Return the number of log lines that contain all these texts."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(all(text in line for text in texts) for line in lines)

    def _stats(self) -> Iterator[Sequence[str]]:
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                stat = path.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat[3]) == self.process.pid:  # its session
                yield stat


@contextmanager
def celery_worker(
    processes: int = 1,
    *,
    app: str = "benchmarks",
    python: str | Path = sys.executable,
    name: str = "first",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    options: Sequence[str] = (),
    patience_seconds: float = STOP_SECONDS,
) -> Generator[Worker]:
    """Run ``celery worker`` during the block, which starts when the worker is ready."""
    command = [python, "-m", "celery", "-A", app, "worker", "--concurrency", str(processes), "--loglevel", "INFO"]
    command += ["--hostname", f"{name}@%h", *options]
    with _running(command, CELERY_READY, cwd, env, patience_seconds) as worker:
        yield worker


@contextmanager
def worker_without_broker() -> Generator[Worker]:
    """Run ``manage.py deliver_webhooks`` during the block."""
    with _running([sys.executable, "-m", "django", "deliver_webhooks"], COMMAND_READY, None, None) as worker:
        yield worker


@contextmanager
def _running(
    command: Sequence[str | Path],
    ready: str,
    cwd: Path | None,
    env: dict[str, str] | None,
    patience_seconds: float = STOP_SECONDS,
) -> Generator[Worker]:
    with tempfile.TemporaryDirectory(prefix="wh-worker-") as directory:
        log = Path(directory, "worker.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=cwd, env=env or os.environ, start_new_session=True
            )
        worker = Worker(process, log)
        with stopped(process, patience_seconds):
            _wait_until_ready(worker, ready)
            yield worker


def _wait_until_ready(worker: Worker, ready: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not worker.count(ready):
        if time.monotonic() > deadline or worker.process.poll() is not None:
            raise RuntimeError(f"The worker did not start:\n{worker.log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)


@contextmanager
def stopped(process: subprocess.Popen[bytes], patience_seconds: float = STOP_SECONDS) -> Generator[None]:
    """After the block, stop a command like an init system, then kill the rest of its session."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
