"""A full disk that is freed again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.missing import skip_without

from ..support.servers.process import server_directory

pytestmark = [pytest.mark.timeout(300), pytest.mark.places("postgresql-redis", "sqlite-embedded")]

DISK_MIB = 48
CHUNK = 4096
RECORDS_PER_SECOND = 5


class SmallDisk:
    """A tmpfs, with a file that fills the rest of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while ballast.write(bytes(CHUNK)):
                pass

    def free(self) -> None:
        self._ballast.unlink()


class LimitedPages:
    """A simulated disk: a file whose existence prevents the growth of SQLite's database."""

    def __init__(self, flag: Path) -> None:
        self.fill = flag.touch
        self.free = flag.unlink


@contextmanager
def small_disk(database) -> Iterator[SmallDisk]:
    with server_directory("disk") as directory:
        directory.chmod(0o755)
        options = f"size={DISK_MIB}m,mode=0755"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", directory], check=False)
        if mounted.returncode:
            skip_without("Mounting a disk of a limited size requires root")
        try:
            (directory / "tablespace").mkdir()
            database.chown(directory / "tablespace")
            yield SmallDisk(directory)
        finally:
            subprocess.run(["umount", "--lazy", directory], check=True)


@pytest.fixture
def lab_and_disk(place, make_lab, migrated):
    if place[0] == "sqlite":
        with make_lab() as lab:
            yield lab, LimitedPages(lab.disk_full)
        return
    database = migrated(place[0])
    with small_disk(database) as disk:
        url = database.new(tablespace=disk.directory / "tablespace")
        with make_lab(url=url) as lab:
            yield lab, disk
        database.drop(url)


def complaints(worker):
    """Return the number of log records above INFO. Deliveries that need no new page continue meanwhile."""
    return sum(": INFO/" not in record for record in worker.records)


def test_the_disk_is_full_and_freed(lab_and_disk, report):
    lab, disk = lab_and_disk
    for temper in ("ok", "slow-1", "fails-2"):
        lab.webhook(temper)
    host = lab.start_host()
    worker = lab.start_worker()
    lab.emit(host, 20)
    lab.wait_for_requests(40)

    disk.fill()
    said, began_at = complaints(worker), time.monotonic()
    refused = lab.emit(host, 60)["errors"]
    time.sleep(max(0, began_at + 8 - time.monotonic()))
    rate = (complaints(worker) - said) / (time.monotonic() - began_at)
    disk.free()
    accepted = lab.emit(host, 20)

    report(lab.settle())
    assert refused
    assert all("full" in error or "No space left" in error for error in refused), refused[0]
    assert accepted["errors"] == []
    assert rate < RECORDS_PER_SECOND, worker.output[-3000:]
    assert worker.is_running
    assert lab.results() == {"succeeded": 3 * len(lab.committed)}
