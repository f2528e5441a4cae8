"""Fixture that runs the app's checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.checks import CheckMessage, run_checks

Found = dict[str, CheckMessage]


@pytest.fixture
def found() -> Callable[..., Found]:
    """Return the current messages of the app's checks by id."""

    def found(*, deploy: bool = False) -> Found:
        messages = run_checks(tags=["webhooks"], include_deployment_checks=deploy)
        return {str(message.id): message for message in messages}

    return found
