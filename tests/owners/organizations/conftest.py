"""Two organizations and a member of both. The tests run only with the settings of this project."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache

from tests.delivery.conftest import clock, deliver, receiver  # noqa: F401

if settings.WEBHOOKS_OWNER_MODEL != "organizations.Organization":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _unthrottled() -> None:
    cache.clear()


@pytest.fixture
def acme(db: None) -> Any:
    return _organization("Acme")


@pytest.fixture
def globex(db: None) -> Any:
    return _organization("Globex")


@pytest.fixture
def amina(acme: Any, django_user_model: Any) -> Any:
    """A member of Acme."""
    user = django_user_model.objects.create_user("amina@example.com")
    acme.members.add(user)
    return user


def _organization(name: str) -> Any:
    from .models import Organization

    return Organization.objects.create(name=name)
