"""The machine of a measurement, without which figures mean nothing."""

from __future__ import annotations

import os
import platform
import ssl
import subprocess
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("django", "celery", "psycopg", "requests")


def description() -> str:
    """Return the machine and the versions of the software, in two lines."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, {_syncs_per_second():,.0f} fdatasync/s, "
        f"load {os.getloadavg()[0]:.1f}, {platform.system()} {platform.release()}\n"
        f"Python {platform.python_version()}, {packages}, {ssl.OPENSSL_VERSION}"
    )


def _commit() -> str:
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--exclude=*", "--dirty= and changes"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:  # git is not installed
        return "unknown"
    return described.stdout.strip() or "unknown"


COMMIT = _commit()
"""The commit of the checkout that is measured, with "and changes" if files differed from it at the start."""


def busy_seconds() -> float:
    """Return the CPU time of all processes since the machine started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of(name: str) -> float:
    """Return the CPU time of all running processes of this program."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            command, _, fields = path.read_text().partition("(")[2].rpartition(")")
            if command == name:
                ticks += sum(int(field) for field in fields.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _syncs_per_second(seconds: float = 0.3) -> float:
    """Return the durable writes per second of the disk, an upper bound for commits of a database."""
    count, started_at = 0, time.monotonic()
    with tempfile.TemporaryFile() as file:
        while time.monotonic() < started_at + seconds:
            file.write(bytes(8192))
            file.flush()
            os.fdatasync(file.fileno())
            count += 1
    return count / (time.monotonic() - started_at)


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
