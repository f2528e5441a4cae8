"""Creating, changing, revoking and deleting API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey
from ..models.audit import acting
from ..owners import owners
from .actors import BaseActor
from .ownership import check_owner
from .rights import CHANGE_KEY, CREATE_KEY, DELETE_KEY

__all__ = ["change_key", "create_key", "delete_key", "revoke_key"]


def create_key(*, owner: Any, actor: BaseActor, **fields: Any) -> tuple[ApiKey, str]:
    """Create a key and return it with its text, which is not stored.

    Raises django.core.exceptions.ValidationError with the problems by field, also for an owner that is not active, or
    an ``expires_at`` in the past: the key would be refused.
    """
    actor.require(CREATE_KEY, getattr(owner, "pk", None))
    check_owner(owner)
    _check_active(owner)
    _check_expiry(fields.get("expires_at"))
    with acting(actor):
        return ApiKey.objects.make(owner=owner, created_by=actor.account, **fields)


def _check_active(owner: Any) -> None:
    if owner is not None and not owners().is_active(owner):
        message = _("%(owner)s is not active, so its keys are refused. Activate it first.")
        raise ValidationError(message, code="inactive_owner", params={"owner": owners().label(owner)})


def _check_expiry(expires_at: datetime | None) -> None:
    if expires_at is not None and expires_at <= timezone.now():
        raise ValidationError({"expires_at": ValidationError(_("Enter a time in the future."), code="expired")})


def change_key(api_key: ApiKey, *, actor: BaseActor) -> None:
    """Save the changed name, scopes and expiry of a key."""
    actor.require(CHANGE_KEY, api_key.owner_id)
    with acting(actor):
        api_key.change()


def revoke_key(api_key: ApiKey, *, actor: BaseActor) -> None:
    """Revoke a key with effect from the next request. A second revocation does not change its time."""
    actor.require(CHANGE_KEY, api_key.owner_id)
    with acting(actor):
        api_key.revoke()


def delete_key(api_key: ApiKey, *, actor: BaseActor) -> None:
    """Delete a key. Audit entries about it remain."""
    actor.require(DELETE_KEY, api_key.owner_id)
    with acting(actor):
        api_key.delete()
