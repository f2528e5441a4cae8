"""The wheel's environment, created once for all processes of a run."""

from __future__ import annotations

import fcntl
import os

import pytest

from .environment import Environment, create


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    directory = shared / "hosts"
    with (shared / "hosts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (directory / "done").exists():
            return Environment(directory=directory / "environment")
        made = create(directory)
        (directory / "done").touch()
        return made
