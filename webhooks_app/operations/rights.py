"""The right required by each operation: a permission of staff, a scope of an API key."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.exceptions import PermissionDenied

from ..models import ApiKey
from ..owners import Access

__all__ = ["AccessDeniedError", "Right"]

MANAGE_ALL = "webhooks_app.manage_all_webhooks"
"""The permission of staff for the rows of every owner."""

READ = ApiKey.Scope.WEBHOOKS_READ.value
READ_EVENTS = ApiKey.Scope.EVENTS_READ.value
WRITE = ApiKey.Scope.WEBHOOKS_WRITE.value
TEST = ApiKey.Scope.WEBHOOKS_TEST.value


class AccessDeniedError(PermissionDenied):
    """The actor may not do this. The message is for the actor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Right:
    """``scope`` is "" if no API key has the right. ``access`` is what the owner policy must permit."""

    permission: str
    scope: str = ""
    access: Access = Access.READ | Access.MANAGE


VIEW_WEBHOOKS = Right(permission="webhooks_app.view_webhook", scope=READ, access=Access.READ)
VIEW_DELIVERIES = Right(permission="webhooks_app.view_delivery", scope=READ, access=Access.READ)
VIEW_EVENTS = Right(permission="webhooks_app.view_event", scope=READ_EVENTS, access=Access.READ)

REGISTER_WEBHOOK = Right(permission="webhooks_app.add_webhook", scope=WRITE, access=Access.ALL)
UPDATE_WEBHOOK = Right(permission="webhooks_app.change_webhook", scope=WRITE)
DELETE_WEBHOOK = Right(permission="webhooks_app.delete_webhook", scope=WRITE)
DISABLE_WEBHOOK = Right(permission="webhooks_app.change_webhook", scope=WRITE)
"""Also required for enabling."""
PAUSE_WEBHOOK = Right(permission="webhooks_app.pause_webhook", scope=WRITE)
"""Also required for resuming."""
ROTATE_SECRET = Right(permission="webhooks_app.rotate_webhook_secret", scope=WRITE, access=Access.ALL)
"""Also required for revoking the previous secret."""
VERIFY_WEBHOOK = Right(permission="webhooks_app.verify_webhook", scope=TEST)
TEST_WEBHOOK = Right(permission="webhooks_app.test_webhook", scope=TEST)
REDELIVER = Right(permission="webhooks_app.redeliver_delivery", scope=WRITE)
"""Also required for retrying now."""
REPLAY = Right(permission="webhooks_app.replay_webhook", scope=WRITE)
"""Required for planning, starting, pausing, resuming and cancelling replays."""
HANDLE_PROBLEM = Right(permission="webhooks_app.change_problem")
"""Required for acknowledging, ignoring and reopening problems, which the API does not offer."""

EMIT_EVENT = Right(permission="webhooks_app.add_event", scope=ApiKey.Scope.EVENTS_EMIT.value)
"""Only service keys have this scope."""

CREATE_KEY = Right(permission="webhooks_app.add_apikey", access=Access.ALL)
CHANGE_KEY = Right(permission="webhooks_app.change_apikey")
"""Also required for revoking."""
DELETE_KEY = Right(permission="webhooks_app.delete_apikey")

FORGET_OWNER = Right(permission=MANAGE_ALL)

CREATE_LINK = Right(permission="webhooks_app.add_portallink")
"""To create a link to the customers' pages. The creator also needs each right that the link gives."""

NOT_FOR_MEMBERS = (EMIT_EVENT, FORGET_OWNER, CREATE_LINK)
"""The rights that no role of the owner policy includes."""

_RIGHTS = [each for each in tuple(globals().values()) if isinstance(each, Right)]


def rights_of(scope: str) -> list[Right]:
    """Return the rights that a scope gives to an API key."""
    return [right for right in _RIGHTS if right.scope == scope]


def rights_within(access: Access) -> list[Right]:
    """Return the rights that this access gives to a member."""
    return [right for right in _RIGHTS if right.access in access and right not in NOT_FOR_MEMBERS]
