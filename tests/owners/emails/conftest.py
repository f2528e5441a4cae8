"""The tests run only with the settings of this project."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache

if settings.WEBHOOKS_OWNER_MODEL != "organizations.User":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _unthrottled() -> None:
    cache.clear()


@pytest.fixture
def amina(django_user_model: Any) -> Any:
    return django_user_model.objects.create_user("amina@example.com")
