"""Overview: the state of the service in one sentence, with figures and charts, on the app's index page in the admin.

All figures come from roll-ups and from indexes of pending deliveries, so that the cost does not grow with the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import router
from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum
from django.http import HttpRequest
from django.template import RequestContext
from django.urls import NoReverseMatch
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..database.sql import having_ids
from ..delivery.sql import oldest_due_at
from ..doctor.delivery import DUE_ERROR, DUE_WARNING, tolerated
from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Counters, Series, Window
from ..models import AuditEntry, Delivery, Problem, QueueEntry, Webhook, WebhookHealth, WorkerProcess
from ..models.health import Thresholds
from ..models.rollup import EVERY_WEBHOOK, id_of_account
from ..models.standing import Standing, exists
from ..pages import charts
from ..pages.charts import TITLES, window_of
from ..pages.display import grouped, in_time, percent
from ..pages.overview import PastChange, happenings, tiles, webhook_rows
from ..pages.verdict import Verdict, attention_in, verdict_of
from .display import console_url, shows_deliveries
from .owned import actor_of, manages_all, own_rows

WORKERS, DUE, FAILED = "workers", "due", "failed"
"""What the verdicts are about, beside webhooks in a state."""


def verdict(*, workers: int, overdue: timedelta, last_hour: Counters, failing: int, has_more: bool = False) -> Verdict:
    """Return the state of the service. ``failing`` is the number of failing webhooks; ``has_more`` means at least."""
    healthy = Verdict("good", _("Healthy"), _results(last_hour))
    return next(_problems(workers, overdue, last_hour, failing, has_more=has_more), healthy)


def _problems(
    workers: int, overdue: timedelta, last_hour: Counters, failing: int, *, has_more: bool
) -> Iterator[Verdict]:
    """Yield the problems, the gravest first."""
    bad, warning = "bad", "late"
    limits, requests, failed = Thresholds.configured(), last_hour.attempts, sum(last_hour.failures.values())
    delay = gettext("A delivery has been due for %(time)s.") % {"time": in_time(overdue)}
    if workers == 0:
        cause = gettext("No worker seen within the last minute. Events stay queued until a worker runs.")
        yield Verdict(bad, _("Not delivering"), cause, WORKERS)
    if overdue >= tolerated(DUE_ERROR):
        yield Verdict(bad, _("Delayed"), delay, DUE)
    if requests >= limits.some_requests and failed >= limits.some_failed * requests:
        yield Verdict(bad, _("Many errors"), _results(last_hour), FAILED)
    if overdue >= tolerated(DUE_WARNING):
        yield Verdict(warning, _("Delayed"), delay, DUE)
    if limits.are_many_failed(failed, requests):
        yield Verdict(warning, _("Some errors"), _results(last_hour), FAILED)
    if failing:
        text = ngettext("%(number)s webhook is failing.", "%(number)s webhooks are failing.", failing)
        cause = text % {"number": f"{failing}+" if has_more else failing}
        yield Verdict(warning, _("Receivers failing"), cause, Standing.FAILING)


def _results(last_hour: Counters) -> str:
    if not last_hour.attempts:
        return gettext("There were no requests in the last hour.")
    rate = percent(sum(last_hour.failures.values()), last_hour.attempts)
    return gettext("%(rate)s of the requests of the last hour failed.") % {"rate": rate}


MAX_ENDANGERED = 10
MAX_COUNTED = 5000
"""Upper limit for counts of pending deliveries; the page shows higher numbers as "more than"."""

PAST = ("auditentry", "problem", "replay", "webhook")
"""The models whose rows tell what happened."""

CHANGE = "webhooks_app.change_webhook"

MAX_OPEN_PROBLEMS = 1000
"""The most open problems that are counted."""

MAX_STEPS = 4000
"""The most roll-ups of accounts in a chart. With more accounts, the overview is of some of them."""

MAX_WEBHOOKS = 100
"""The most webhooks of a user's own accounts whose queue and failures are read.

For 500 of 10,000, PostgreSQL reads whole tables.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """Pending deliveries."""

    waiting: int
    in_flight: int
    overdue_seconds: int
    """Time since the oldest delivery was due; 0 if none is overdue."""

    @property
    def is_more(self) -> bool:
        """True if ``waiting`` exceeds the counted limit."""
        return self.waiting > MAX_COUNTED


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    window: Window
    verdict: Verdict
    series: Series
    backlog: Backlog
    workers: int | None
    """Number of worker processes seen within the last minute; None for users who see only their own owners."""
    webhooks: Sequence[Webhook]
    """Those that have failed longest, and those with the most given-up deliveries."""
    counted_accounts: int
    accounts: int
    """The number of accounts of the user; greater than that of counted ones if they are too many."""
    webhook_ids: Sequence[str] | None
    """Those of the user whose backlog and problems are counted; None for all."""
    has_more_webhooks: bool
    """True if the backlog and the failing webhooks are those of ``MAX_WEBHOOKS`` of the user's webhooks only."""

    @property
    def total(self) -> Counters:
        return self.series.total

    @property
    def p50_ms(self) -> float | None:
        return self.total.response_times.percentile(0.5)

    @property
    def per_minute(self) -> float:
        """Finished deliveries per minute."""
        return self.total.finished / (len(self.series.points) * self.series.step_seconds / 60)


def overview_for(request: HttpRequest, window: Window) -> Overview:
    """Return the overview of all webhooks, or of those of the user's own owners."""
    now = timezone.now()
    ids: list[str] | None = None
    webhooks: QuerySet[Webhook] = Webhook.objects.none()
    counted, number, has_more_webhooks = [EVERY_WEBHOOK], 1, False
    if manages_all(request):
        due_at = oldest_due_at(router.db_for_write(Delivery), now)
    else:
        accounts = sorted(actor_of(request).owner_ids)
        number = len(accounts)
        del accounts[MAX_STEPS // max(window.steps, Window.HOUR.steps) :]
        webhooks = own_rows(request, Webhook.objects.existing()).filter(owner__in=accounts)
        # An index finds the newest of one account. To sort those of several, all would be read.
        webhooks = webhooks.order_by(*(("-pk",) if len(accounts) == 1 else ()))
        ids = list(webhooks.values_list("pk", flat=True)[: MAX_WEBHOOKS + 1])
        has_more_webhooks = len(ids) > MAX_WEBHOOKS
        del ids[MAX_WEBHOOKS:]
        due = _oldest_due(ids, now)
        counted = [id_of_account(pk) for pk in accounts]
        due_at = min((each for each in due if each), default=None)
    series = reading.series(window, counted)
    backlog, endangered = _backlog(ids, now - due_at if due_at else timedelta()), _endangered(ids, now)
    workers = WorkerProcess.objects.running().count() if ids is None else None
    recent_window = Window.HOUR if workers is not None else Window.DAY
    recent = (series if window is recent_window else reading.series(recent_window, counted)).total
    if workers is not None:
        judged = verdict(
            workers=workers,
            overdue=timedelta(seconds=backlog.overdue_seconds),
            last_hour=recent,
            failing=len(endangered),
            has_more=len(endangered) == MAX_ENDANGERED,
        )
    else:
        judged = verdict_of(attention_in(webhooks, now), recent)
    return Overview(
        window=window,
        verdict=judged,
        series=series,
        backlog=backlog,
        workers=workers,
        webhooks=_listed(endangered, window, ids),
        counted_accounts=len(counted),
        accounts=number,
        webhook_ids=ids,
        has_more_webhooks=has_more_webhooks,
    )


def shown_overview(request: HttpRequest) -> dict[str, Any]:
    """Return the context of ``overview.html``, or nothing if the user may not view deliveries."""
    if not shows_deliveries(request):
        return {}
    window, site = window_of(request), request.current_app
    overview, deliveries = overview_for(request, window), partial(console_url, "delivery_changelist", site=site)
    waiting = grouped(min(overview.backlog.waiting, MAX_COUNTED))
    return {
        "overview": overview,
        "verdict_url": _url_of(overview.verdict, request, site),
        "tiles": tiles(
            overview.series,
            waiting=(_("Waiting"), f"> {waiting}" if overview.backlog.is_more else waiting),
            url=deliveries,
        ),
        "problems": _open_problems(request, overview),
        "problems_url": console_url("problem_changelist", site=site),
        **charts.shown(overview.series, window, deliveries),
        "webhook_rows": webhook_rows(
            overview.webhooks,
            window,
            url=partial(console_url, "webhook_change", site=site),
            settings_url=partial(_settings_url, site) if request.user.has_perm(CHANGE) else None,
        ),
        "happenings": _happenings(request, overview, site),
        "span": TITLES[window],
        "max_webhooks": MAX_WEBHOOKS,
    }


def _settings_url(site: str, pk: str) -> str:
    return f"{console_url('webhook_change', pk, site=site)}?section=settings#id_url"


def _happenings(request: HttpRequest, overview: Overview, site: str) -> list[PastChange] | None:
    """Return what happened last to the listed webhooks, and the newest audit entries.

    Return None for users who may not view all of it. Of several accounts, no index has the newest entries.
    """
    if not all(request.user.has_perm(f"webhooks_app.view_{name}") for name in PAST):
        return None
    is_indexed = overview.webhook_ids is None or overview.accounts == 1
    entries = own_rows(request, AuditEntry.objects.all()) if is_indexed else AuditEntry.objects.none()
    listed = {webhook.pk: webhook for webhook in overview.webhooks}
    pages = {"wh": "webhook_change", "dlv": "delivery_change", "rpl": "replay_change"}

    def url(pk: str) -> str:
        with suppress(NoReverseMatch):  # another site need not have all of the models
            return console_url(pages[pk.partition("_")[0]], pk, site=site)
        return ""

    return happenings(entries, listed, url=url)


def _url_of(shown: Verdict, request: HttpRequest, site: str) -> str:
    """Return the URL of the rows behind a verdict; "" if it has none, or if the user may not see them."""
    may = {name: request.user.has_perm(f"webhooks_app.view_{name}") for name in ("webhook", "problem")}
    if shown.about == WORKERS:
        return console_url("operations_changelist", site=site)
    if shown.about == DUE:
        return console_url("delivery_changelist", site=site, state="pending")
    if shown.about == FAILED and may["problem"]:
        return console_url("problem_changelist", site=site)
    if shown.about == FAILED:
        return console_url("delivery_changelist", site=site, state="given_up")
    return console_url("webhook_changelist", site=site, health=shown.about) if shown.about and may["webhook"] else ""


def _open_problems(request: HttpRequest, overview: Overview) -> str:
    """Return the number of unresolved problems; "" for users who may not view them."""
    if not request.user.has_perm("webhooks_app.view_problem"):
        return ""
    problems = Problem.objects.unresolved().order_by()
    if overview.webhook_ids is not None:
        problems = problems.filter(webhook__in=overview.webhook_ids)
    number = problems.values("pk")[: MAX_OPEN_PROBLEMS + 1].count()
    return grouped(number) if number <= MAX_OPEN_PROBLEMS else f"{grouped(MAX_OPEN_PROBLEMS)}+"


def _oldest_due(webhook_ids: Sequence[str], now: datetime) -> Sequence[datetime | None]:
    """Return when the oldest waiting delivery of each webhook that is sent to was due, or None if none is.

    An owner may not see when a test of an unverified URL is due again.
    """
    is_waiting = Q(claimed_at=None) | Q(leased_until__lte=now)
    entries = QueueEntry.objects.filter(is_waiting, webhook=OuterRef("pk"), due_at__lte=now)
    oldest = Subquery(entries.order_by("due_at").values("due_at")[:1])
    webhooks = having_ids(Webhook.objects.filter(status=Webhook.Status.ACTIVE, paused_at=None), webhook_ids)
    return list(webhooks.order_by().values_list(oldest, flat=True))


def _backlog(webhook_ids: list[str] | None, overdue: timedelta) -> Backlog:
    """Return the backlog of these webhooks, or of all, whose oldest delivery is overdue for this time."""
    entries = QueueEntry.objects.order_by()
    if webhook_ids is not None:
        entries = entries.filter(webhook__in=webhook_ids)
    pending = _count(entries)
    in_flight = _in_flight(entries, webhook_ids, is_long=pending > MAX_COUNTED)
    return Backlog(
        waiting=pending if pending > MAX_COUNTED else max(0, pending - in_flight),
        in_flight=in_flight,
        overdue_seconds=max(0, int(overdue.total_seconds())),
    )


def _in_flight(entries: Any, webhook_ids: list[str] | None, *, is_long: bool) -> int:
    """Return the number of claims. No index has them, so that those in a long queue are known from the workers."""
    if webhook_ids:
        return len(QueueEntry.objects.claimed_first(webhook_ids, settings.MAX_IN_FLIGHT_PER_WEBHOOK))
    if webhook_ids is None and is_long:
        reported = WorkerProcess.objects.running().aggregate(number=Sum("in_flight"))
        return reported["number"] or 0
    return _count(entries.claimed())


def _count(rows: QuerySet[Any]) -> int:
    """Count by an index only: with another column, PostgreSQL may read the whole table."""
    return rows.values_list("webhook")[: MAX_COUNTED + 1].count()


def _endangered(webhook_ids: list[str] | None, now: datetime) -> list[str]:
    """Return the active webhooks that have failed longest."""
    failing = WebhookHealth.objects.failing(now).filter(exists(Webhook.objects.active().filter(pk=OuterRef("pk"))))
    if webhook_ids is not None:
        failing = failing.filter(webhook__in=webhook_ids)
    return list(failing.order_by("failing_since").values_list("pk", flat=True)[:MAX_ENDANGERED])


def _listed(endangered: list[str], window: Window, webhook_ids: list[str] | None) -> list[Webhook]:
    listed = dict.fromkeys([*endangered, *reading.worst_webhooks(window, webhook_ids)])
    webhooks = having_ids(Webhook.objects.existing().select_related("health", "lane"), listed)
    places = list(listed)
    return sorted(webhooks, key=lambda webhook: places.index(webhook.pk))


def webhooks_overview(context: RequestContext) -> dict[str, Any]:
    """Return the context of the template tag for the overview, which is refreshed while the page is open."""
    request = context["request"]
    site, window = getattr(request, "current_app", None), window_of(request).value
    return {**shown_overview(request), "live_url": console_url("webhook_overview", site=site, window=window)}
