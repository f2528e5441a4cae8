"""The actions on a webhook that need no further input, and the buttons of its page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
    VIEW_WEBHOOKS,
    Right,
)
from ..pages.confirmations import WEBHOOK, Confirmation
from .base import AccountPage

Status = Webhook.Status


class Action(NamedTuple):
    """An operation on a webhook without further input, with its confirmation."""

    label: Any
    done: Any
    operation: Callable[..., Any]
    right: Right
    is_offered: Callable[[Webhook], bool]
    confirmation: Confirmation


ACTIONS = {
    "verify": Action(
        _("Verify"),
        _("The verification has started."),
        partial(lifecycle.start_verification, again=False),
        VERIFY_WEBHOOK,
        lambda webhook: webhook.is_running and webhook.status != Status.ACTIVE,
        WEBHOOK["verify"],
    ),
    "pause": Action(
        _("Pause"),
        _("The webhook is paused."),
        lifecycle.pause,
        PAUSE_WEBHOOK,
        lambda webhook: webhook.is_running and webhook.status != Status.FAILED,
        WEBHOOK["pause"],
    ),
    "resume": Action(
        _("Resume"),
        _("The webhook is resumed."),
        lifecycle.resume,
        PAUSE_WEBHOOK,
        lambda webhook: webhook.paused_at is not None,
        WEBHOOK["resume"],
    ),
    "enable": Action(
        _("Enable"),
        _("The webhook is enabled, and its verification has started."),
        lifecycle.enable,
        DISABLE_WEBHOOK,
        lambda webhook: webhook.status == Status.DISABLED,
        WEBHOOK["enable"],
    ),
    "disable": Action(
        _("Disable"),
        _("The webhook is disabled."),
        lifecycle.disable,
        DISABLE_WEBHOOK,
        lambda webhook: webhook.status != Status.DISABLED,
        WEBHOOK["disable"],
    ),
    "activate-new-secret": Action(
        _("Activate the new secret"),
        _("The new secret is active."),
        rotation.activate_prepared_keys,
        ROTATE_SECRET,
        lambda webhook: webhook.has_prepared_keys,
        WEBHOOK["activate_secret"],
    ),
    "withdraw-new-secret": Action(
        _("Withdraw the new secret"),
        _("The new secret is withdrawn."),
        rotation.withdraw_prepared_keys,
        ROTATE_SECRET,
        lambda webhook: webhook.has_prepared_keys,
        WEBHOOK["withdraw_secret"],
    ),
    "expire-old-secret": Action(
        _("Expire the old secret now"),
        _("The old secret has expired."),
        rotation.revoke_previous_keys,
        ROTATE_SECRET,
        lambda webhook: webhook.has_previous_keys,
        WEBHOOK["revoke_previous_secret"],
    ),
    "delete": Action(
        _("Delete"),
        _("The webhook is deleted."),
        lifecycle.delete,
        DELETE_WEBHOOK,
        lambda webhook: True,
        WEBHOOK["delete"],
    ),
}


class Button(NamedTuple):
    label: Any
    url: str
    is_destructive: bool = False


def offered(page: AccountPage, webhook: Webhook) -> list[Button]:
    """Return the buttons of the actions that the user may perform, and that the state of the webhook permits."""
    forms = [
        (_("Send a test event"), "webhook-test", TEST_WEBHOOK, webhook.is_running),
        (_("Settings"), "webhook-settings", UPDATE_WEBHOOK, True),
        (_("Rotate the secret"), "webhook-rotate", ROTATE_SECRET, True),
        (_("Recover missed events"), "replay-new", REPLAY, True),
        (_("Verification code"), "webhook-code", VIEW_WEBHOOKS, True),
    ]
    buttons = [
        Button(label, page.url(name, webhook.pk)) for label, name, right, is_it in forms if is_it and page.may(right)
    ]
    return buttons + [
        Button(action.label, page.url("webhook-action", webhook.pk, name), action.confirmation.is_destructive)
        for name, action in ACTIONS.items()
        if page.may(action.right) and action.is_offered(webhook)
    ]
