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
from ..protocol.ids import time_of
from .display import moment

State = Replay.State

LATEST = 1000
"""Number of recently queued deliveries that the page of a replay reads."""


FAST_SECONDS, SLOW_SECONDS = 3, 20
"""Intervals at which the page is refreshed: while the replay is under way, and after it."""

FOLLOWED = timedelta(minutes=5)
"""Time after the end of a replay in which its page follows the pending deliveries."""


class Latest(NamedTuple):
    """The deliveries that a replay has queued last."""

    numbers: Sequence[tuple[Any, int]]
    """How many are in each state."""
    answered: str
    """The identifier of the newest one with an attempt; "" without one."""
    seconds: int
    """Interval at which the page is refreshed; 0 if it is no longer."""
    is_left: bool
    """Whether the page is no longer refreshed, although deliveries are pending."""


def latest_of(replay: Replay) -> Latest:
    found = list(replay.deliveries.order_by("-pk").values_list("pk", "state", "attempt_count")[:LATEST])
    states = Counter(Delivery.State(state) for _pk, state, _attempts in found)
    seconds, is_pending = 0, Delivery.State.PENDING in states
    if replay.is_under_way:
        seconds = FAST_SECONDS
    elif is_pending and timezone.now() < (replay.finished_at or time_of(found[0][0])) + FOLLOWED:
        seconds = SLOW_SECONDS
    return Latest(
        numbers=[(state.label, number) for state, number in states.items()],
        answered=next((pk for pk, _state, attempts in found if attempts), ""),
        seconds=seconds,
        is_left=is_pending and not seconds,
    )


def notes_about(replay: Replay) -> list[SafeString | str]:
    """Return sentences about the failures that a replay makes good, and who started it, if that was the service."""
    own = [gettext("Started by the service: the webhook recovers automatically.")] if replay.recovers_since else []
    return [*own, *failing_sentences(FailingPeriod.from_json(kept) for kept in replay.failing)]


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
    if replay.state == State.DONE and not replay.matched:
        return gettext("No events to send in this period.")
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
