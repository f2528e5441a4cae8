"""The order of the list of receivers, by any of its columns, from a few rows that sum up all webhooks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, count, islice
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from ..database.sql import having_ids
from ..maintenance.rollups.periods import Period
from ..maintenance.rollups.reading import Window
from ..maintenance.rollups.recent import QUEUED
from ..models import RecentResults, WebhookHealth
from ..models.rollup import EVERY_WEBHOOK
from ..models.standing import Standing, conditions, healths_of
from ..owners import owners
from .webhook_health import FAILS_AFTER

MIN_REQUESTS = 10
"""The fewest requests by which shares of failed requests are compared, unless the webhook has been failing for some
time: the lower bound of their confidence interval says little about fewer."""

# A page reads at most 10,000 rows, whatever is sorted, filtered and stored. The following bounds are shares of it:
# 2,000 identifiers and 2,000 failing webhooks, 1,000 examined ones with their health, or 500 with two entries of the
# queue each, and 2,000 roll-ups of an interval. The summed-up results of all webhooks are few rows, each of many.

MAX_CHOSEN, EXAMINED, SORTED = 2000, 200, 500
"""The most webhooks that an index finds, to be sorted; how many of the order are examined at a time, four pages; and
how many are sorted by account at a time."""

MAX_COMPARED = 500
"""The most webhooks whose results in an interval are compared, unless an index finds few, or more have lost events."""

MAX_WEBHOOKS_EXAMINED = 1000
"""The most webhooks that a page examines, with a row of health each. It has a link to search further. An export
examines all."""

MAX_EXAMINED_BY_QUEUE = 500
"""The same if the state depends on the queue, of which rows are read too."""

MAX_FAILING = 2000
"""The most failing webhooks that an order knows: the longest failing. It has the others as if they were not failing."""

WORST = "errors"

NOT_INDEXED = (Standing.HEALTHY, Standing.RETRYING, Standing.DELAYED, Standing.HELD_BACK)
"""States in which no index finds the webhooks."""


class Column(NamedTuple):
    """A column by which the list can be sorted, and the figure of a span of time whose column it is, if any."""

    title: Any
    figure: str = ""
    is_number: bool = True


COLUMNS: Mapping[str, Column] = {
    "owner": Column(_("Account"), is_number=False),
    "state": Column(_("State"), is_number=False),
    WORST: Column(_("Failed requests"), "worst"),
    "lost": Column(_("Given up"), "given_up"),
    "volume": Column(_("Deliveries"), "finished"),
    "p50": Column(_("Median (ms)"), "p50"),
    "p95": Column(_("95th percentile (ms)"), "p95"),
    "queued": Column(_("Queued")),
    "failing": Column(_("Failing"), is_number=False),
}

ASCENDING = ("owner", "state", "failing")
"""Columns that are first sorted upwards: names, and the longest failure."""


@dataclass(kw_only=True)
class ReceiverOrder:
    """The order of the list, in which webhooks without a value are last, and the newest of equal ones is first.

    It reads the results of all webhooks from a few rows, and then only the webhooks that it yields and some more.
    """

    found: QuerySet[Any]
    state: Standing | None
    is_narrow: bool
    """Whether ``found`` has only the webhooks of some accounts."""
    sort: str
    period: Period
    limit: int | None
    skip: int
    """The number of webhooks in this order that pages before have examined."""
    now: datetime
    reached: int = 0
    """The number of webhooks that have been skipped or examined."""
    is_cut_short: bool = False
    """True if more than ``most_examined`` webhooks would have to be examined."""
    most_failing: int = 0
    """The number of failing webhooks that the order knows, if there are more; otherwise 0."""
    most_compared: int = 0
    """The number of webhooks whose results in an interval are compared, if there are more; otherwise 0."""

    @property
    def most_examined(self) -> int:
        return MAX_EXAMINED_BY_QUEUE if self.state in NOT_INDEXED else MAX_WEBHOOKS_EXAMINED

    @property
    def sorts_accounts(self) -> bool:
        return self.sort.removeprefix("-") == "owner"

    def ids(self) -> Iterator[str]:
        name = self.sort.removeprefix("-")
        if name == "owner":
            return chain.from_iterable(map(self._matching, self._by_owner()))
        if name != "state":
            return self._in_state(self.state, self._values(name))
        states: Sequence[Standing | None] = [self.state] if self.state else self._sorted(Standing)
        webhooks = dict.fromkeys(_summed_up(QUEUED))
        return chain.from_iterable(self._in_state(state, webhooks) for state in states)

    def _sorted(self, names: Iterable[Any]) -> list[Any]:
        return list(names)[:: -1 if self._is_descending else 1]

    @property
    def _is_descending(self) -> bool:
        return self.sort.startswith("-")

    def _by_owner(self) -> Iterator[Sequence[str]]:
        """Yield some webhooks at a time, sorted by the names of their accounts. Those of the platform are last."""
        few = self._few(self.state)
        webhooks = self.found if few is None or self.is_narrow else having_ids(self.found, few)
        name = f"owner__{owners().name_field}"
        named = webhooks.filter(**{f"{name}__isnull": False}).order_by(
            f"-{name}" if self._is_descending else name, "-pk"
        )
        for each in (named, webhooks.filter(owner=None).order_by("-pk")):
            ids = each.values_list("pk", flat=True)
            if self.limit is None:
                yield list(ids)
                continue
            sliced: Any = ids if few is None else list(ids)  # few are read once, and not again for each slice
            for start in count(0, SORTED):
                yield (some := list(sliced[start : start + SORTED]))
                if len(some) < SORTED or self.is_cut_short:
                    break

    def _values(self, name: str) -> dict[str, Any]:
        """Return each webhook that has been summed up, with the value by which it is sorted, or None."""
        if name == "queued":
            return _summed_up(QUEUED)
        results = self._results(name)
        failing = self._failing if name in ("failing", WORST) else {}
        self.most_failing = MAX_FAILING if len(failing) > MAX_FAILING else 0
        if name == "failing":
            return dict.fromkeys(results) | dict(islice(failing.items(), MAX_FAILING))
        figure = COLUMNS[name].figure
        since = self.now - FAILS_AFTER
        # A share of few requests says little, unless the receiver has been failing for long: without this exception,
        # the worst would be last.
        longer = {pk for pk, at in islice(failing.items(), MAX_FAILING) if at <= since}
        return {
            pk: figures.get(figure)
            if figures and (name != WORST or pk in longer or figures.get("requests", 0) >= MIN_REQUESTS)
            else None
            for pk, figures in results.items()
        }

    def _results(self, name: str) -> dict[str, Any]:
        """Return each webhook that has been summed up, with its figures in the period, or None."""
        if self.period.window is not None:
            return _summed_up(self.period.window.value)
        known = dict.fromkeys(_summed_up(Window.WEEK.value))
        if name == "failing":
            return known
        return known | self._compared()

    def _compared(self) -> dict[str, Any]:
        """Return the figures in an interval of webhooks: first of those that gave up the most, then of the newest."""
        few = self._few(self.state)
        newest = self.found.order_by("-pk").values_list("pk", flat=True)[: MAX_COMPARED + 1] if few is None else few
        failed = [pk for pk in self.period.failed() if few is None or pk in few]
        candidates = dict.fromkeys([*failed, *sorted(newest, reverse=True)])
        figures = self.period.compared(islice(candidates, max(MAX_COMPARED, len(failed)) if few is None else None))
        self.most_compared = len(figures) if len(figures) < len(candidates) else 0
        return dict(figures)

    @cached_property
    def _failing(self) -> dict[str, datetime]:
        """Return since when webhooks have been failing, the longest first; one too many if there are more."""
        failing = WebhookHealth.objects.failing(self.now).order_by("failing_since")
        return dict(failing.values_list("pk", "failing_since")[: MAX_FAILING + 1])

    @cached_property
    def _narrow(self) -> Collection[str] | None:
        few = list(self.found.values_list("pk", flat=True)[: MAX_CHOSEN + 1])
        return few if len(few) <= MAX_CHOSEN else None

    def _few(self, state: Standing | None) -> Collection[str] | None:
        """Return all webhooks in this state and maybe others, if an index finds them and they are few."""
        if self.is_narrow:
            return self._narrow
        if state is Standing.FAILING:
            return self._failing if len(self._failing) <= MAX_FAILING else None
        if state in (None, *NOT_INDEXED):
            return None
        if state is Standing.UNUSED:
            used = _summed_up(Window.WEEK.value)
            few = [pk for pk in self._all(used) if not used.get(pk)]
        else:
            webhooks = self.found.filter(conditions(self.now)[state])
            few = list(webhooks.values_list("pk", flat=True)[: MAX_CHOSEN + 1])
        return few if len(few) <= MAX_CHOSEN else None

    def _in_state(self, state: Standing | None, values: Mapping[str, Any]) -> Iterator[str]:
        """Yield the sorted webhooks in this state, or all."""
        if self.is_cut_short:
            return
        ids = self._few(state)
        candidates = self._by_value(self._all(values) if ids is None else ids, values)
        for start in range(0, len(candidates), EXAMINED):
            yield from self._matching(candidates[start : start + EXAMINED], state)

    def _all(self, summed_up: Collection[str]) -> set[str]:
        """Return these webhooks and the newer ones."""
        newer = self.found.filter(pk__gt=max(summed_up, default=EVERY_WEBHOOK))
        return {*summed_up, *newer.values_list("pk", flat=True)}

    def _matching(self, ids: Sequence[str], state: Standing | None = None) -> list[str]:
        """Return which of these webhooks exist and are in this state, in the same order.

        Of a page, some may be skipped, and only ``most_examined`` are examined.
        """
        state = state or self.state
        if self.limit is not None and (state or not self.sorts_accounts):
            # Pages before have examined the first ``skip`` webhooks of the order, so that these are not read again.
            skipped = min(len(ids), max(0, self.skip - self.reached))
            ids = ids[skipped:]
            self.reached += skipped
            room = self.skip + self.most_examined - self.reached
            self.is_cut_short = self.is_cut_short or len(ids) > room
            ids = ids[:room]
            self.reached += len(ids)
        if not ids:
            return []
        examined = having_ids(self.found, ids)
        if state is None:
            matching = set(examined.values_list("pk", flat=True))
        else:
            webhooks = examined.defer("filter", "encrypted_headers").select_related("health")
            judged = healths_of(webhooks, self.now)
            matching = {pk for pk in judged if judged[pk].standing is state}
        return [pk for pk in ids if pk in matching]

    def _by_value(self, ids: Iterable[str], values: Mapping[str, Any]) -> list[str]:
        newest = sorted(ids, reverse=True)
        known = [pk for pk in newest if values.get(pk) is not None]
        unknown = [pk for pk in newest if values.get(pk) is None]
        return [*sorted(known, key=lambda pk: values[pk], reverse=self._is_descending), *unknown]


def _summed_up(part: str) -> dict[str, Any]:
    """Return each webhook that has been summed up, with this part of its recent results, or None."""
    rows = RecentResults.objects.order_by("pk").values_list("results__ids", f"results__{part}")
    return {pk: results.get(pk) for ids, results in rows for pk in ids}
