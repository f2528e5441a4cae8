"""What a confirmation adds to its question: what an action does to these rows now, and a person's reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django import forms
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..models import ApiKey, Delivery, QueueEntry, Replay, Webhook
from ..operations.replays import count_all_missed
from .display import grouped, missed_in_words, moment

MAX_PENDING_COUNTED = 1000
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


def ended(webhooks: Sequence[Webhook]) -> list[str]:
    """Return how many pending deliveries of these webhooks are cancelled if they are disabled or deleted."""
    return _of_webhooks(webhooks, _cancelled)


def held(webhooks: Sequence[Webhook]) -> list[str]:
    """Return how many pending deliveries of these webhooks are held if they are paused."""
    return _of_webhooks(
        webhooks,
        lambda number: ngettext(
            "%(number)s pending delivery is held.", "%(number)s pending deliveries are held.", number
        ),
    )


def released(webhooks: Sequence[Webhook]) -> list[str]:
    """Return how many held deliveries of these webhooks are sent if they are resumed."""
    return _of_webhooks(
        webhooks,
        lambda number: ngettext("%(number)s held delivery is sent.", "%(number)s held deliveries are sent.", number),
    )


def _of_webhooks(webhooks: Sequence[Webhook], text: Callable[[int], str]) -> list[str]:
    waiting = QueueEntry.objects.unclaimed().filter(webhook__in=[webhook.pk for webhook in webhooks])
    if len(webhooks) == 1:
        waiting = waiting.order_by("due_at")  # in the order of an index, or PostgreSQL reads all of them
    return _sentence(waiting[: MAX_PENDING_COUNTED + 1].count(), text)


def cancelled_with(replays: Sequence[Replay]) -> list[str]:
    """Return how many pending deliveries are cancelled with their replays."""
    waiting = Delivery.objects.filter(replay__in=[replay.pk for replay in replays]).waiting()
    return _sentence(waiting[: MAX_PENDING_COUNTED + 1].count(), _cancelled)


def _sentence(number: int, text: Callable[[int], str]) -> list[str]:
    return [text(number) % {"number": _shown(number)}] if number else [gettext("No delivery is pending.")]


def missed(webhooks: Sequence[Webhook]) -> list[str]:
    """Return how many events these webhooks missed, which ``send_missed`` would send."""
    return [missed_in_words(count_all_missed(webhooks))]


def last_uses(keys: Sequence[ApiKey]) -> list[str]:
    """Return a sentence about the latest use of API keys, which a revocation would end."""
    used = [key.last_used_at for key in keys if key.last_used_at is not None]
    if not used:
        return [ngettext("It has never been used.", "None of them has ever been used.", len(keys))]
    return [format_html(gettext("Last used: {time}."), time=moment(max(used)))]


def _cancelled(number: int) -> str:
    return ngettext("%(number)s pending delivery is cancelled.", "%(number)s pending deliveries are cancelled.", number)


def _shown(number: int) -> str:
    if number > MAX_PENDING_COUNTED:
        return gettext("More than %(number)s") % {"number": grouped(MAX_PENDING_COUNTED)}
    return grouped(number)
