"""Confirmations in the console and on the customers' pages: the question, its consequences, and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey, Delivery, QueueEntry, Replay, Webhook
from .display import grouped, moment

MAX_COUNTED = 1000
"""Maximum number of pending deliveries that a confirmation counts."""

MAX_WORDS = 200


class ReasonForm(forms.Form):
    """A person's reason for stopping something."""

    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=MAX_WORDS,
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
        help_text=_("Optional. The audit log keeps it, and the account can read it."),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    question: Any
    """A lazy text with a plural by ``number``."""
    is_destructive: bool = False
    asks_reason: bool = False

    def asked_of(self, number: int) -> str:
        return str(self.question % {"number": number})


WEBHOOK = {
    "verify": Confirmation(
        question=ngettext_lazy(
            "Verify this webhook? No events are sent to it until the verification succeeds.",
            "Verify these %(number)d webhooks? No events are sent to them until their verification succeeds.",
            "number",
        )
    ),
    "pause": Confirmation(
        question=ngettext_lazy(
            "Pause this webhook? Events queue up and are sent when you resume.",
            "Pause these %(number)d webhooks? Events queue up and are sent when you resume.",
            "number",
        ),
        asks_reason=True,
    ),
    "resume": Confirmation(
        question=ngettext_lazy(
            "Resume this webhook? Held deliveries are sent first.",
            "Resume these %(number)d webhooks? Held deliveries are sent first.",
            "number",
        )
    ),
    "enable": Confirmation(
        question=ngettext_lazy(
            "Enable and verify this webhook? No events are sent to it until the verification succeeds.",
            "Enable and verify these %(number)d webhooks? No events are sent to them until their verification "
            "succeeds.",
            "number",
        )
    ),
    "disable": Confirmation(
        question=ngettext_lazy(
            "Disable this webhook? Nothing is sent to it until it is enabled and verified again.",
            "Disable these %(number)d webhooks? Nothing is sent to them until they are enabled and verified again.",
            "number",
        ),
        is_destructive=True,
        asks_reason=True,
    ),
    "activate_secret": Confirmation(
        question=ngettext_lazy(
            "Activate the new secret of this webhook now? A receiver that reads only X-Webhook-Signature refuses "
            "requests until it has the new secret.",
            "Activate the new secrets of these %(number)d webhooks now? Receivers that read only X-Webhook-Signature "
            "refuse requests until they have the new secrets.",
            "number",
        ),
    ),
    "withdraw_secret": Confirmation(
        question=ngettext_lazy(
            "Withdraw the new secret of this webhook? The old one goes on signing.",
            "Withdraw the new secrets of these %(number)d webhooks? The old ones go on signing.",
            "number",
        ),
        is_destructive=True,
    ),
    "revoke_previous_secret": Confirmation(
        question=ngettext_lazy(
            "Expire the old secret of this webhook now? Requests are no longer signed with it.",
            "Expire the old secrets of these %(number)d webhooks now? Requests are no longer signed with them.",
            "number",
        ),
        is_destructive=True,
    ),
    "delete": Confirmation(
        question=ngettext_lazy(
            "Delete this webhook for good? The log of its deliveries is kept until its retention ends.",
            "Delete these %(number)d webhooks for good? The logs of their deliveries are kept until their retention "
            "ends.",
            "number",
        ),
        is_destructive=True,
        asks_reason=True,
    ),
    "send_missed": Confirmation(
        question=ngettext_lazy(
            "Send the missed events to this webhook? Each is sent once, in addition to new events.",
            "Send the missed events to these %(number)d webhooks? Each is sent once, in addition to new events.",
            "number",
        )
    ),
}

API_KEY = {
    "revoke": Confirmation(
        question=ngettext_lazy(
            "Revoke this key? Requests with it are refused from now on. This cannot be undone.",
            "Revoke these %(number)d keys? Requests with them are refused from now on. This cannot be undone.",
            "number",
        ),
        is_destructive=True,
        asks_reason=True,
    ),
    "delete": Confirmation(
        question=ngettext_lazy(
            "Delete this key? Requests with it are refused from now on, and only the audit log remembers it.",
            "Delete these %(number)d keys? Requests with them are refused from now on, and only the audit log "
            "remembers them.",
            "number",
        ),
        is_destructive=True,
        asks_reason=True,
    ),
}

DELIVERY = {
    "redeliver": Confirmation(
        question=ngettext_lazy(
            "Send this event again, as a new delivery?",
            "Send these %(number)d events again, each as a new delivery?",
            "number",
        )
    ),
}

REPLAY = {
    "start": Confirmation(
        question=ngettext_lazy(
            "Send the events found? Each is sent once, in addition to new events.",
            "Send the events found by these %(number)d replays? Each is sent once, in addition to new events.",
            "number",
        )
    ),
    "pause": Confirmation(
        question=ngettext_lazy(
            "Pause this replay? Deliveries already queued are still sent.",
            "Pause these %(number)d replays? Deliveries already queued are still sent.",
            "number",
        )
    ),
    "resume": Confirmation(
        question=ngettext_lazy(
            "Resume this replay? Events that it has already sent are not sent again.",
            "Resume these %(number)d replays? Events that they have already sent are not sent again.",
            "number",
        )
    ),
    "cancel": Confirmation(
        question=ngettext_lazy(
            "Cancel this replay for good? It sends nothing more.",
            "Cancel these %(number)d replays for good? They send nothing more.",
            "number",
        ),
        is_destructive=True,
        asks_reason=True,
    ),
}

PROBLEM = {
    "acknowledge": Confirmation(
        question=ngettext_lazy(
            "Mark this problem as known until it is resolved?",
            "Mark these %(number)d problems as known until they are resolved?",
            "number",
        )
    ),
    "ignore": Confirmation(
        question=ngettext_lazy(
            "Ignore this problem from now on? Its failures are counted, but do not open it again.",
            "Ignore these %(number)d problems from now on? Their failures are counted, but do not open them again.",
            "number",
        )
    ),
    "reopen": Confirmation(
        question=ngettext_lazy("Open this problem again?", "Open these %(number)d problems again?", "number")
    ),
}


def pending_of_webhooks(action: str, webhooks: Sequence[Webhook]) -> list[str]:
    """Return a sentence about the pending deliveries of webhooks if an action ends, holds or sends them."""
    if action not in ("disable", "delete", "pause", "resume"):
        return []
    waiting = QueueEntry.objects.unclaimed().filter(webhook__in=[webhook.pk for webhook in webhooks])
    if len(webhooks) == 1:
        waiting = waiting.order_by("due_at")  # in the order of an index, or PostgreSQL reads all of them
    number = waiting[: MAX_COUNTED + 1].count()
    if not number:
        return [gettext("No delivery is pending.")]
    if action == "pause":
        text = ngettext("%(number)s pending delivery is held.", "%(number)s pending deliveries are held.", number)
    elif action == "resume":
        text = ngettext("%(number)s held delivery is sent.", "%(number)s held deliveries are sent.", number)
    else:
        text = _cancelled(number)
    return [text % {"number": _shown(number)}]


def pending_of_replays(action: str, replays: Sequence[Replay]) -> list[str]:
    """Return a sentence about the pending deliveries of replays if an action cancels them."""
    if action != "cancel":
        return []
    waiting = Delivery.objects.filter(replay__in=[replay.pk for replay in replays]).waiting()
    number = waiting[: MAX_COUNTED + 1].count()
    return [_cancelled(number) % {"number": _shown(number)}] if number else [gettext("No delivery is pending.")]


def last_uses(keys: Sequence[ApiKey]) -> list[str]:
    """Return a sentence about the latest use of API keys, which a revocation would end."""
    used = [key.last_used_at for key in keys if key.last_used_at is not None]
    if not used:
        return [ngettext("It has never been used.", "None of them has ever been used.", len(keys))]
    return [format_html(gettext("Last used: {time}."), time=moment(max(used)))]


def _cancelled(number: int) -> str:
    return ngettext("%(number)s pending delivery is cancelled.", "%(number)s pending deliveries are cancelled.", number)


def _shown(number: int) -> str:
    if number > MAX_COUNTED:
        return gettext("More than %(number)s") % {"number": grouped(MAX_COUNTED)}
    return grouped(number)
