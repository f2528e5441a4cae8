"""The wheel's environment, created once for all processes of a run."""

from __future__ import annotations

import pytest

from ..support.once import made_once
from .environment import Environment, create


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(directory=made_once(tmp_path_factory, "hosts", create) / "environment")
