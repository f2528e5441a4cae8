"""Accounts, and an API key."""

from __future__ import annotations

import pytest
from django.core.cache import cache

from webhooks_app.models import ApiKey


@pytest.fixture(autouse=True)
def _fresh_limits():
    cache.clear()


@pytest.fixture
def api_key(alice):
    return ApiKey.objects.make(owner=alice)[1]
