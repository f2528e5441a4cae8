"""The right required by each operation: a permission of staff, a scope of an API key."""

from __future__ import annotations

from dataclasses import dataclass

from ..models import ApiKey

__all__ = ["Right"]

WRITE = ApiKey.Scope.WEBHOOKS_WRITE.value
TEST = ApiKey.Scope.WEBHOOKS_TEST.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Right:
    """``scope`` is "" if no API key has the right."""

    permission: str
    scope: str = ""


REGISTER_WEBHOOK = Right(permission="webhooks_app.add_webhook", scope=WRITE)
UPDATE_WEBHOOK = Right(permission="webhooks_app.change_webhook", scope=WRITE)
DELETE_WEBHOOK = Right(permission="webhooks_app.delete_webhook", scope=WRITE)
DISABLE_WEBHOOK = Right(permission="webhooks_app.change_webhook", scope=WRITE)
"""Also required for enabling."""
PAUSE_WEBHOOK = Right(permission="webhooks_app.pause_webhook", scope=WRITE)
"""Also required for resuming."""
ROTATE_SECRET = Right(permission="webhooks_app.rotate_webhook_secret", scope=WRITE)
"""Also required for revoking the previous secret."""
VERIFY_WEBHOOK = Right(permission="webhooks_app.verify_webhook", scope=TEST)
TEST_WEBHOOK = Right(permission="webhooks_app.test_webhook", scope=TEST)
REDELIVER = Right(permission="webhooks_app.redeliver_delivery", scope=WRITE)
REPLAY = Right(permission="webhooks_app.replay_webhook", scope=WRITE)
"""Required for planning, starting, pausing, resuming and cancelling replays."""

EMIT_EVENT = Right(permission="webhooks_app.add_event", scope=ApiKey.Scope.EVENTS_EMIT.value)
"""Only service keys have this scope."""

CREATE_KEY = Right(permission="webhooks_app.add_apikey")
CHANGE_KEY = Right(permission="webhooks_app.change_apikey")
"""Also required for revoking."""
DELETE_KEY = Right(permission="webhooks_app.delete_apikey")

FORGET_OWNER = Right(permission="webhooks_app.manage_all_webhooks")
