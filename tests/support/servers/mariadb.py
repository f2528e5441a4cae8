"""MariaDB, from Debian."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pymysql

from .process import free_port, program, server_directory
from .process import running as running_process


def programs() -> tuple[Path, Path]:
    """Return the programs for creating and serving a data directory."""
    installer = program("mariadb-install-db", package="mariadb-server")
    return installer, program("mariadbd", "/usr/sbin", package="mariadb-server")


@contextmanager
def running() -> Generator[str]:
    """Yield the URL of a new MariaDB server. Its account can create databases."""
    with server_directory("maria") as directory:
        port = free_port()
        command = installed(directory, port)
        with running_process(command, directory=directory, ready=lambda: answers(port)):
            yield f"mysql://root@127.0.0.1:{port}/webhooks"


def installed(directory: Path, port: int, *options: str) -> list[str | Path]:
    """Create the data of a server in a directory. Return the command that starts it."""
    installer, server = programs()
    # Not a change of account: this option permits both programs to run as root.
    common = ["--no-defaults", f"--datadir={directory / 'data'}", f"--user={pwd.getpwuid(os.geteuid()).pw_name}"]
    install: list[str | Path] = [installer, *common, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, capture_output=True, cwd=directory)
    files = [f"--socket={directory / 's.sock'}", f"--pid-file={directory / 'pid'}"]
    return [server, *common, *_options(port), *files, *options]


def _options(port: int) -> list[str]:
    return [
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--character-set-server=utf8mb4",
        "--default-time-zone=+02:00",  # the time zone of a server may differ from UTC
        "--skip-log-bin",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-buffer-pool-size=128M",
        "--innodb-stats-auto-recalc=0",  # which would change plans at random times
    ]


def answers(port: int) -> bool:
    try:
        pymysql.connect(host="127.0.0.1", port=port, user="root").close()
    except pymysql.OperationalError:
        return False
    return True
