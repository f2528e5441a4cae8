"""One sentence about the state of the service, for the top of the overview: the gravest problem with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..doctor.delivery import DUE_ERROR, DUE_WARNING, tolerated
from ..maintenance.rollups.reading import Counters
from ..pages.display import in_time, percent

MIN_DELIVERIES = 10
"""The fewest deliveries of the last hour that are judged."""

ERRORS_WARNING, ERRORS_ERROR = 0.01, 0.1
"""Tolerated share of deliveries that are given up."""


class Verdict(NamedTuple):
    css: str
    state: Any
    cause: str


def verdict(
    *, workers: int | None, overdue: timedelta, last_hour: Counters, failing: int, has_more: bool = False
) -> Verdict:
    """Return the state with its cause.

    ``workers`` is None if the user may not know them. ``failing`` webhooks have failed for some time; ``has_more``
    means at least.
    """
    healthy = Verdict("webhooks-good", _("Healthy"), _results(last_hour))
    return next(_problems(workers, overdue, last_hour, failing, has_more=has_more), healthy)


def _problems(
    workers: int | None, overdue: timedelta, last_hour: Counters, failing: int, *, has_more: bool
) -> Iterator[Verdict]:
    """Yield the problems, the gravest first."""
    bad, warning = "webhooks-bad", "webhooks-late"
    finished = last_hour.finished
    errors = last_hour.given_up / finished if finished >= MIN_DELIVERIES else 0
    delay = gettext("A delivery has been due for %(time)s.") % {"time": in_time(overdue)}
    if workers == 0:
        cause = gettext("No worker seen within the last minute. Events stay queued until a worker runs.")
        yield Verdict(bad, _("Not delivering"), cause)
    if overdue >= tolerated(DUE_ERROR):
        yield Verdict(bad, _("Delayed"), delay)
    if errors >= ERRORS_ERROR:
        yield Verdict(bad, _("Many errors"), _results(last_hour))
    if overdue >= tolerated(DUE_WARNING):
        yield Verdict(warning, _("Delayed"), delay)
    if errors >= ERRORS_WARNING:
        yield Verdict(warning, _("Some errors"), _results(last_hour))
    if failing:
        text = ngettext("%(number)s webhook has been failing.", "%(number)s webhooks have been failing.", failing)
        cause = text % {"number": f"{failing}+" if has_more else failing}
        yield Verdict(warning, _("Receivers failing"), cause)


def _results(last_hour: Counters) -> str:
    if not last_hour.finished:
        return gettext("There were no deliveries in the last hour.")
    rate = percent(last_hour.given_up, last_hour.finished)
    return gettext("%(rate)s of the deliveries of the last hour were given up.") % {"rate": rate}
