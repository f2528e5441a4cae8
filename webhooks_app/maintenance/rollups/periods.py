"""Periods of results: one of the windows until now, or any interval, which roll-ups count by whole hours or days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Self

from django.db.models import Q, Sum
from django.utils import timezone

from ...models import Rollup, Webhook, WebhookHealth
from ...protocol.json_data import format_time
from .folding import KEPT, Resolution, Sums, add, start_of
from .reading import DAY, Counters, Window
from .recent import figures

HOUR = timedelta(hours=1)

DEFAULT_LENGTH = timedelta(days=7)
"""The period before an end, if the user has entered no beginning."""

BY_HOURS = timedelta(days=7)
"""The longest interval that begins and ends at whole hours. Longer ones consist of whole days, to read fewer rows."""

MOST_DAYS = 92
"""The longest interval whose results are summed up, a quarter of a year. A page of 50 webhooks reads 4,650 rows."""

MOST_SUMMED = 2000
"""Roll-ups that are read to compare webhooks by their results in an interval. Busy webhooks have one for each hour."""

MOST_FAILED = 300
"""Roll-ups with given-up deliveries that are read of each of the (at most three) spans of an interval, the latest, to
find the webhooks to compare first."""

SUMMED_AT_A_TIME = 100


class Span(NamedTuple):
    """Roll-ups of one resolution, from a start to an end."""

    resolution: str
    start: datetime
    end: datetime

    @property
    def number(self) -> int:
        return (self.end - self.start) // (DAY if self.resolution == Resolution.DAY else HOUR)

    @property
    def condition(self) -> Q:
        return Q(resolution=self.resolution, start__gte=self.start, start__lt=self.end)


@dataclass(frozen=True, kw_only=True)
class Period:
    """One of the windows until now, or an interval that the user has entered."""

    since: datetime
    until: datetime | None = None
    window: Window | None = None

    @classmethod
    def of(cls, name: str, limits: Mapping[str, Any], among: Collection[Window], default: Window) -> Self:
        """Return the interval of a valid ``IntervalForm``, or else the window with this name."""
        since: datetime | None = limits.get("seen_after")
        until: datetime | None = limits.get("seen_before")
        if since is None and until is not None:
            since = until - DEFAULT_LENGTH
        if since is None:
            window = next((each for each in among if each.value == name), default)
            return cls(since=timezone.now() - window.step * window.steps, window=window)
        return cls(since=since, until=until)

    @property
    def name(self) -> str:
        """The name of the window, or the interval in the form of ISO 8601."""
        if self.window is not None:
            return str(self.window.value)
        return "/".join(format_time(at.astimezone(UTC)) for at in (self.since, self._end))

    @property
    def _end(self) -> datetime:
        return self.until or timezone.now()

    @property
    def query(self) -> dict[str, str]:
        """The parameters of a page."""
        if self.window is not None:
            return {"window": self.window.value}
        limits = {"seen_after": self.since, "seen_before": self.until}
        return {name: f"{timezone.localtime(at):%Y-%m-%dT%H:%M:%S}" for name, at in limits.items() if at}

    @cached_property
    def counted(self) -> tuple[datetime, datetime]:
        """The beginning and the end of the roll-ups of an interval, which contain it."""
        has_hours = self.since > timezone.now() - KEPT[Resolution.HOUR] + DAY
        by, step = (
            (Resolution.HOUR, HOUR) if self._end - self.since <= BY_HOURS and has_hours else (Resolution.DAY, DAY)
        )
        last = self._end - timedelta.resolution
        return start_of(by, self.since), start_of(by, max(last, self.since)) + step

    @cached_property
    def spans(self) -> Sequence[Span]:
        """The roll-ups of an interval. Whole days replace their hours, to read fewer rows."""
        start, end = self.counted
        first = start_of(Resolution.DAY, start + DAY - timedelta.resolution)
        last = start_of(Resolution.DAY, end)
        if first >= last:
            return [Span(Resolution.HOUR, start, end)]
        spans = (
            Span(Resolution.HOUR, start, first),
            Span(Resolution.DAY, first, last),
            Span(Resolution.HOUR, last, end),
        )
        return [span for span in spans if span.start < span.end]

    @property
    def _rows_per_webhook(self) -> int:
        return sum(
            (span.end - span.start) // (DAY if span.resolution == Resolution.DAY else HOUR) for span in self.spans
        )

    @property
    def _condition(self) -> Q:
        condition = Q()
        for span in self.spans:
            condition |= span.condition
        return condition

    def given_up(self, webhooks: Sequence[Webhook]) -> dict[Webhook, int]:
        """Return the number of deliveries to each webhook that were given up."""
        if self.window is not None:
            found = self.figures(webhooks)
            return {webhook: found[webhook.pk].get("given_up", 0) for webhook in webhooks}
        rows = Rollup.objects.filter(self._condition, webhook_id__in=[each.pk for each in webhooks], given_up__gt=0)
        sums = dict(rows.order_by().values_list("webhook_id").annotate(Sum("given_up")))
        return {webhook: sums.get(webhook.pk, 0) for webhook in webhooks}

    def figures(self, webhooks: Collection[Webhook]) -> dict[str, Mapping[str, Any]]:
        """Return the figures of each of these webhooks, see ``recent.figures``, which are loaded with ``health``."""
        if self.window is None:
            return self._summed_up([webhook.pk for webhook in webhooks])[0]
        healths = {webhook.pk: WebhookHealth.of(webhook) for webhook in webhooks}
        return {pk: health.recent.get(self.window.value, {}) if health else {} for pk, health in healths.items()}

    def compared(self, webhook_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """Return the figures in an interval of the first of these webhooks, as many as ``MOST_SUMMED`` rows reach."""
        ids, left = iter(webhook_ids), MOST_SUMMED
        found: dict[str, Mapping[str, Any]] = {}
        while some := list(islice(ids, min(SUMMED_AT_A_TIME, left // self._rows_per_webhook))):
            figures_of, read = self._summed_up(some)
            found |= figures_of
            left -= read
        return found

    def failed(self) -> list[str]:
        """Return webhooks with given-up deliveries in an interval, the most first."""
        sums: Counter[str] = Counter()
        failed = Rollup.objects.filter(given_up__gt=0).order_by("-start")
        for span in self.spans:  # one after the other, so that each reads only what it returns from the index
            for webhook_id, number in failed.filter(span.condition).values_list("webhook_id", "given_up")[:MOST_FAILED]:
                sums[webhook_id] += number
        return [webhook_id for webhook_id, _number in sums.most_common()]

    def _summed_up(self, webhook_ids: Collection[str]) -> tuple[dict[str, Mapping[str, Any]], int]:
        """Return the figures of each of these webhooks in an interval, and the number of rows that were read."""
        sums: dict[str, Sums] = {webhook_id: {} for webhook_id in webhook_ids}
        rows = Rollup.objects.filter(self._condition, webhook_id__in=webhook_ids).order_by()
        read = 0
        for webhook_id, counts in rows.values_list("webhook_id", "counts"):
            add(sums[webhook_id], counts)
            read += 1
        return {webhook_id: figures(Counters(found)) for webhook_id, found in sums.items()}, read
