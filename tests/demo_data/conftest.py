from __future__ import annotations

from collections.abc import Callable

import pytest

from ..maintenance.rollups.conftest import other_id, webhook_id  # noqa: F401
from ..support.commands import Output, run_command


@pytest.fixture
def run() -> Callable[..., Output]:
    return run_command
