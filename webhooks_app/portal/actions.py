"""The actions on a webhook that need no further input, and the buttons of its page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from ..models import Webhook
from ..operations import lifecycle, rotation
from ..operations.rights import (
    DELETE_WEBHOOK,
    DISABLE_WEBHOOK,
    PAUSE_WEBHOOK,
    REPLAY,
    ROTATE_SECRET,
    TEST_WEBHOOK,
    UPDATE_WEBHOOK,
    VERIFY_WEBHOOK,
    Right,
)
from .base import AccountPage

Status = Webhook.Status


class Action(NamedTuple):
    """An operation on a webhook without further input, with its confirmation."""

    label: Any
    question: Any
    done: Any
    operation: Callable[..., Any]
    right: Right
    is_offered: Callable[[Webhook], bool]
    is_destructive: bool = False


def _runs(webhook: Webhook) -> bool:
    return webhook.status != Status.DISABLED and webhook.paused_at is None


ACTIONS = {
    "verify": Action(
        _("Verify"),
        _("Send a verification request now? No events are sent until the receiver has answered it."),
        _("The verification has started."),
        lifecycle.start_verification,
        VERIFY_WEBHOOK,
        lambda webhook: _runs(webhook) and webhook.status != Status.ACTIVE,
    ),
    "pause": Action(
        _("Pause"),
        _("Pause sending? Events queue up and are sent when you resume."),
        _("The webhook is paused."),
        lifecycle.pause,
        PAUSE_WEBHOOK,
        lambda webhook: _runs(webhook) and webhook.status != Status.FAILED,
    ),
    "resume": Action(
        _("Resume"),
        _("Resume sending? Held deliveries are sent first."),
        _("The webhook is resumed."),
        lifecycle.resume,
        PAUSE_WEBHOOK,
        lambda webhook: webhook.paused_at is not None,
    ),
    "enable": Action(
        _("Enable"),
        _("Enable and verify? No events are sent until the verification succeeds."),
        _("The webhook is enabled, and its verification has started."),
        lifecycle.enable,
        DISABLE_WEBHOOK,
        lambda webhook: webhook.status == Status.DISABLED,
    ),
    "disable": Action(
        _("Disable"),
        _("Stop sending? Pending deliveries are cancelled."),
        _("The webhook is disabled."),
        lifecycle.disable,
        DISABLE_WEBHOOK,
        lambda webhook: webhook.status != Status.DISABLED,
        is_destructive=True,
    ),
    "expire-old-secret": Action(
        _("Expire the old secret now"),
        _("Expire the old secret now? Requests are no longer signed with it."),
        _("The old secret has expired."),
        rotation.revoke_previous_keys,
        ROTATE_SECRET,
        lambda webhook: webhook.has_previous_keys,
        is_destructive=True,
    ),
    "delete": Action(
        _("Delete"),
        _("Delete this webhook? Pending deliveries are cancelled. The log of its deliveries is kept for a while."),
        _("The webhook is deleted."),
        lifecycle.delete,
        DELETE_WEBHOOK,
        lambda webhook: True,
        is_destructive=True,
    ),
}


class Button(NamedTuple):
    label: Any
    url: str
    is_destructive: bool = False


def offered(page: AccountPage, webhook: Webhook) -> list[Button]:
    """Return the buttons of the actions that the user may perform, and that the state of the webhook permits."""
    forms = [
        (_("Send a test event"), "webhook-test", TEST_WEBHOOK, _runs(webhook)),
        (_("Settings"), "webhook-settings", UPDATE_WEBHOOK, True),
        (_("Rotate the secret"), "webhook-rotate", ROTATE_SECRET, True),
        (_("Recover missed events"), "replay-new", REPLAY, True),
    ]
    buttons = [
        Button(label, page.url(name, webhook.pk)) for label, name, right, is_it in forms if is_it and page.may(right)
    ]
    return buttons + [
        Button(action.label, page.url("webhook-action", webhook.pk, name), action.is_destructive)
        for name, action in ACTIONS.items()
        if page.may(action.right) and action.is_offered(webhook)
    ]
