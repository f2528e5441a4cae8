"""Sentences about replays and the failing periods that they make good, and the latest results of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django import forms
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..models import Delivery, Replay
from ..models.delivery import DeliveryQuerySet
from ..models.health import FailingPeriod
from ..models.replay import missing_outcomes
from ..protocol.ids import time_of
from ..replays.planning import failing_periods, outcomes_of
from .display import DeliveryUrl, grouped, moment
from .filters import moment_field
from .transcript import transcript

State = Replay.State

LATEST = 1000
"""Number of recently queued deliveries that the page of a replay reads."""


FAST_SECONDS, SLOW_SECONDS = 3, 20
"""Intervals at which the page is refreshed: while the replay is under way, and after it."""

FOLLOWED = timedelta(minutes=5)
"""Time after the end of a replay in which its page follows the pending deliveries."""


class MissedEventsForm(forms.Form):
    """The period and the outcomes of the events to send once more."""

    since = moment_field(
        _("From"), help_text=_("Default: the start of its first failing period of the last week, or a week ago.")
    )
    until = moment_field(_("To"), help_text=_("Default: now. Later events are not included."))
    states = forms.MultipleChoiceField(
        label=_("Which events"),
        choices=Replay.Outcome.choices,
        initial=missing_outcomes,
        widget=forms.CheckboxSelectMultiple({"class": "radiolist"}),
    )


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
    deliveries = list(replay.deliveries.order_by("-pk").values_list("pk", "state", "attempt_count")[:LATEST])
    states = Counter(Delivery.State(state) for _pk, state, _attempts in deliveries)
    seconds, is_pending = 0, Delivery.State.PENDING in states
    if replay.is_under_way:
        seconds = FAST_SECONDS
    elif is_pending and timezone.now() < (replay.finished_at or time_of(deliveries[0][0])) + FOLLOWED:
        seconds = SLOW_SECONDS
    return Latest(
        numbers=[(state.label, number) for state, number in states.items()],
        answered=next((pk for pk, _state, attempts in deliveries if attempts), ""),
        seconds=seconds,
        is_left=is_pending and not seconds,
    )


def notes_about(replay: Replay) -> list[SafeString | str]:
    """Return sentences about the failures that a replay makes good, and who started it, if that was the service."""
    own = [gettext("Started by the service: the webhook recovers automatically.")] if replay.recovers_since else []
    return [*own, *failing_sentences(_periods_as_of_now(replay))]


def _periods_as_of_now(replay: Replay) -> list[FailingPeriod]:
    """Return the failing periods found at planning, with the end of one that was not over then."""
    periods = [FailingPeriod.from_json(kept) for kept in replay.failing]
    if all(period.ended_at for period in periods):
        return periods
    current = [period for period in failing_periods(replay.webhook, since=replay.since) if period.ended_at]
    return [period if period.ended_at else next(filter(_contains(period), current), period) for period in periods]


def _contains(period: FailingPeriod) -> Callable[[FailingPeriod], bool]:
    """Return whether another period, possibly merged with others, contains the beginning of this one."""
    return lambda other: other.began_at <= period.began_at and (other.ended_at or period.began_at) >= period.began_at


def failing_sentences(periods: Iterable[FailingPeriod]) -> list[SafeString]:
    """Return a sentence for each failing period."""
    ended = gettext("Failed from {began} to {ended}: {number} given up.")
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


def progress_of(replay: Replay, *, event_url: Callable[[str], str]) -> dict[str, Any]:
    """Return the context of ``parts/replay_progress.html`` and ``parts/replay_sample.html``.

    ``event_url`` returns the URL of an event; "" if the user may not view events.
    """
    latest = latest_of(replay)
    return {
        "replay": replay,
        "status": status_in_words(replay, latest),
        "notes": notes_about(replay),
        "latest": latest,
        "is_done": not latest.seconds,
        "sample": [{**each, "url": event_url(each["event_id"])} for each in _sample_of(replay)],
    }


def last_answer(deliveries: DeliveryQuerySet, pk: str, *, shows_body: bool = True, url: DeliveryUrl) -> dict[str, Any]:
    """Return the last attempt of a delivery with the answer; nothing if it is not among the deliveries."""
    delivery = deliveries.with_related().filter(pk=pk).first() if pk else None
    if delivery is None:
        return {}
    attempts = transcript(delivery.shown_attempts(), delivery, shows_body=shows_body, url=url)
    return {"delivery": delivery, "delivery_url": url(pk), "attempts": attempts[-1:]}


def _sample_of(replay: Replay) -> list[dict[str, Any]]:
    """Return the first events found, with their outcomes of now."""
    labels = {**dict(Delivery.State.choices), **dict(Replay.Outcome.choices)}
    now = outcomes_of(replay, [each["event_id"] for each in replay.sample])
    return [
        {
            **each,
            "created": datetime.fromisoformat(each["created"]),
            "outcome": labels.get(now.get(each["event_id"], each["state"]), each["state"]),
        }
        for each in replay.sample
    ]


def status_in_words(replay: Replay, latest: Latest) -> str:
    """Return the status of a replay as a sentence."""
    number = delivered_by(replay, latest)
    if number is None:
        return _state_in_words(replay)
    counts = {"delivered": grouped(number), "queued": grouped(replay.queued)}
    sentence = gettext("Done: %(delivered)s of %(queued)s delivered.") % counts
    if replay.queued >= replay.matched:
        return sentence
    others = gettext("The other events found have been sent in the meantime.")
    return f"{sentence} {others}"


def delivered_by(replay: Replay, latest: Latest) -> int | None:
    """Return how many deliveries of a replay succeeded, or None until all have ended."""
    numbers = dict(latest.numbers)
    if replay.state != State.DONE or not numbers or Delivery.State.PENDING.label in numbers:
        return None
    if replay.queued > LATEST:
        return int(replay.deliveries.filter(state=Delivery.State.SUCCEEDED).order_by().count())
    return int(numbers.get(Delivery.State.SUCCEEDED.label, 0))


def _state_in_words(replay: Replay) -> str:
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
