"""The programs of the service and their commands."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

HOST = "127.0.0.1"


def commands(port: int, receiver_port: int = 0) -> dict[str, Sequence[str]]:
    """Return the command of each program by name. Without a port, there is no receiver."""
    manage = (sys.executable, "manage.py")
    server = (*manage, "runserver", "--noreload")
    receiver = (*server, "--settings=example_project.receiver_settings", f"{HOST}:{receiver_port}")
    celery = (sys.executable, "-m", "celery", "--app", "example_project", "--quiet")
    return {
        "web": (*server, f"{HOST}:{port}"),
        # Threads: one process is enough here, and the delivery engine has its own thread anyway.
        "worker": (
            *celery,
            "worker",
            "--pool",
            "threads",
            "--concurrency",
            "4",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ),
        "beat": (*celery, "beat", "--pidfile="),
        **({"receiver": receiver} if receiver_port else {}),
    }


def is_free(port: int) -> bool:
    """Return True if the service can listen on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Return True if a program accepts connections on this port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0
