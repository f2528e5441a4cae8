"""The configured owner model and policy."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from ..conf import settings
from ..database.current import current

if TYPE_CHECKING:
    from .base import BaseOwners


def owner_model_name() -> str:
    """Return the value of ``WEBHOOKS_OWNER_MODEL``, by default the user model."""
    return str(settings.OWNER_MODEL or django_settings.AUTH_USER_MODEL)


def owner_model() -> Any:
    """Return the model of owners. Raises ImproperlyConfigured if it is not installed."""
    return _model(owner_model_name())


def owner_rows() -> Any:
    """Return the default manager of the owner model, on the database for writes."""
    return current(owner_model()._default_manager)


@lru_cache(maxsize=16)
def _model(name: str) -> Any:
    try:
        return apps.get_model(name, require_ready=False)
    except (LookupError, ValueError) as error:
        raise ImproperlyConfigured(f"WEBHOOKS_OWNER_MODEL is {name!r}: {error}") from None


def owners() -> BaseOwners:
    """Return the project's policy for owners."""
    return _policy(settings.OWNERS)


@lru_cache(maxsize=16)
def _policy(path: str) -> BaseOwners:
    policy: BaseOwners = import_string(path)()
    return policy
