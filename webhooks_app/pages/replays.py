"""Sentences about replays and the failing periods that they make good, and the latest results of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from ..conf import settings
from ..models import Delivery, Replay
from ..models.health import FailingPeriod
from .display import moment

State = Replay.State

LATEST = 1000
"""Number of recently queued deliveries that the page of a replay reads."""


class Latest(NamedTuple):
    """The deliveries that a replay has queued last."""

    numbers: Sequence[tuple[Any, int]]
    """How many are in each state."""
    has_pending: bool
    answered: str
    """The identifier of the newest one with an attempt; "" without one."""


def latest_of(replay: Replay) -> Latest:
    found = list(replay.deliveries.order_by("-pk").values_list("pk", "state", "attempt_count")[:LATEST])
    states = Counter(Delivery.State(state) for _pk, state, _attempts in found)
    return Latest(
        numbers=[(state.label, number) for state, number in states.items()],
        has_pending=Delivery.State.PENDING in states,
        answered=next((pk for pk, _state, attempts in found if attempts), ""),
    )


def failing_sentences(periods: Iterable[FailingPeriod]) -> list[SafeString]:
    """Return a sentence for each failing period."""
    ended = gettext("Failing from {began} to {ended}: {number} given up.")
    open_ = gettext("Failing since {began}: {number} given up.")
    return [
        format_html(
            ended if period.ended_at else open_,
            began=moment(period.began_at),
            ended=moment(period.ended_at) if period.ended_at else "",
            number=period.given_up,
        )
        for period in periods
    ]


def status_in_words(replay: Replay) -> str:
    """Return the status of a replay as a sentence."""
    numbers = {"queued": replay.queued, "matched": replay.matched, "examined": replay.examined}
    if replay.state == State.READY:
        ready = ngettext("%(matched)d event would be sent.", "%(matched)d events would be sent.", replay.matched)
        waits = gettext("Nothing is sent until you start the replay.")
        return f"{ready % numbers} {waits}"
    if replay.state == State.DONE and replay.queued >= replay.matched:
        return gettext("Done: all events found are queued.")
    sentences = {
        State.COUNTING: gettext("Counting: found %(matched)d among %(examined)d. Nothing is sent yet."),
        State.RUNNING: gettext("Running: %(queued)d of %(matched)d queued."),
        State.PAUSED: gettext("Paused: %(queued)d of %(matched)d queued."),
        State.DONE: gettext("Done: %(queued)d of %(matched)d queued; the others have been sent in the meantime."),
        State.CANCELLED: gettext("Cancelled: %(queued)d of %(matched)d were queued."),
        State.STOPPED: gettext("Stopped: %(queued)d of %(matched)d were queued."),
    }
    return sentences[State(replay.state)] % numbers


def moved_start(replay: Replay, since: datetime | None) -> str:
    """Return why a replay includes no events from the beginning of the period that was asked for; "" if it does."""
    if since is None:
        return ""
    if replay.since > since:
        return gettext("“From” was moved to the creation of the webhook: there are no earlier events for it.")
    days = settings.ATTEMPT_RETENTION_DAYS
    if since >= timezone.now() - timedelta(days=days):
        return ""
    text = ngettext(
        "Events can be sent for %(days)d day. Older ones are not included.",
        "Events can be sent for %(days)d days. Older ones are not included.",
        days,
    )
    return text % {"days": days}
