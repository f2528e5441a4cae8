"""Creating, changing, revoking and deleting API keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey
from ..models.api_key import owner_scopes
from ..models.audit import acting
from ..owners import check_owner, owners
from .actions import REMOVE_KEY, REVOKE_KEY
from .actors import BaseActor, changing
from .rights import CHANGE_KEY, CREATE_KEY, rights_of

__all__ = ["change_key", "create_key", "delete_key", "revoke_key"]


def create_key(*, owner: Any, actor: BaseActor, **fields: Any) -> tuple[ApiKey, str]:
    """Create a key and return it with its text, which is not stored. The actor needs every right of its scopes.

    Raise django.core.exceptions.ValidationError with the problems by field, also for an owner that is not active, or
    an ``expires_at`` in the past: the key would be refused.
    """
    owner_id = getattr(owner, "pk", None)
    actor.require(CREATE_KEY, owner_id)
    _check_scopes(fields.get("scopes", owner_scopes()), owner_id, actor)
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
    """Save the changed name, scopes and expiry of a key. The actor needs every right of the added scopes.

    Raise django.core.exceptions.ValidationError.
    """
    with changing(CHANGE_KEY, api_key, actor) as saved:
        added = [scope for scope in api_key.scopes if scope not in saved.scopes]
        _check_scopes(added, saved.owner_id, actor)
        api_key.change(since=saved)


def revoke_key(api_key: ApiKey, *, actor: BaseActor, reason: str = "") -> None:
    """Revoke a key with effect from the next request. Raise AlreadyInStateError for a revoked key."""
    with REVOKE_KEY.on(api_key, actor):
        api_key.revoke(reason)


def delete_key(api_key: ApiKey, *, actor: BaseActor, reason: str = "") -> None:
    """Delete a key. Audit entries about it remain."""
    with REMOVE_KEY.on(api_key, actor):
        api_key.delete(reason=reason)


def may_grant(scope: str, owner_id: Any, actor: BaseActor) -> bool:
    """Return True if the actor has every right that the scope gives to a key of this owner."""
    return all(actor.may(right, owner_id) for right in rights_of(scope))


def _check_scopes(scopes: Iterable[str], owner_id: Any, actor: BaseActor) -> None:
    if refused := [scope for scope in scopes if not may_grant(scope, owner_id, actor)]:
        message = _("A key cannot do more than you may do for this account. Remove these scopes: %(scopes)s.")
        params = {"scopes": ", ".join(refused)}
        raise ValidationError({"scopes": ValidationError(message, code="not_granted", params=params)})
