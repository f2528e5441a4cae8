"""Impact: what a failure has hit in a period. Accounts, webhooks and missed events, by cause and by account."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..database.sql import having_ids
from ..maintenance.rollups.periods import Period
from ..maintenance.rollups.reading import Window
from ..models import DeliveryAttempt, Problem, Webhook
from ..models.problem import UNATTEMPTED, Cause
from ..owners import owners
from ..pages.charts import windows
from ..pages.filters import ANSWER, IntervalForm
from ..pages.lists import PLATFORM
from ..replays.missed import missed_events
from .display import page_of
from .owned import OwnedAdmin, manages_all, own_rows
from .replays import MAX_RECOVERED, may_replay

MOST_PROBLEMS = 1000
"""Problems that the page reads, the latest first."""

PERIOD_NAMES = {Window.HOUR: "hour", Window.DAY: "day", Window.WEEK: "week"}
"""The periods, with the values of the filter of the list of problems."""


class CauseForm(IntervalForm):
    answer = forms.CharField(label=_("Status code"), required=False, max_length=10, validators=[ANSWER])
    result = forms.ChoiceField(
        label=_("Result"), required=False, choices=[("", _("All")), *DeliveryAttempt.Result.choices[1:]]
    )


@dataclass(kw_only=True, slots=True)
class Hit:
    """An account with failures, or a cause of them."""

    name: str
    url: str
    accounts: set[Any] = field(default_factory=set)
    webhooks: dict[str, Webhook] = field(default_factory=dict)
    missed: int = 0
    has_more: bool = False
    """Whether a webhook may have missed more events than were counted."""
    given_up: int = 0

    def add(self, webhook: Webhook, missed: int, *, has_more: bool) -> None:
        self.accounts.add(webhook.owner_id)
        self.webhooks[webhook.pk] = webhook
        self.missed += missed
        self.has_more |= has_more


def is_meant(wanted: Mapping[str, str], cause: Cause) -> bool:
    """Return True for a cause with this result, and with this code, class of codes or timeout."""
    answer = wanted.get("answer", "")
    if wanted.get("result") and cause.result != wanted["result"]:
        return False
    if answer.endswith("xx"):
        return cause.code // 100 == int(answer[0])
    return not answer or answer == (str(cause.code) if answer.isdecimal() else cause.result)


class ImpactPage(OwnedAdmin):
    """Mixin for the admin of problems."""

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("impact/", self.impact_view, "impact"), *super().get_urls()]

    def impact_view(self, request: HttpRequest) -> TemplateResponse:
        """Show what a failure has hit: causes and accounts, those that missed the most events first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = CauseForm(request.GET, auto_id="filter-%s")
        data = form.cleaned_data if form.is_valid() else {}
        period = Period.of(request.GET.get("window", ""), data, PERIOD_NAMES, Window.HOUR)
        wanted = {name: data[name] for name in ("answer", "result") if data.get(name)} if form.is_valid() else None
        causes, has_more = self._failed(request, period, wanted)
        by_account, by_cause = self._hits(request, causes, period, wanted or {})
        return page_of(
            self,
            request,
            "problem/impact",
            title=gettext("Impact"),
            form=form,
            window=period.window.value if period.window else "",
            windows=windows(period.window, PERIOD_NAMES),
            kept_query="".join(f"&{name}={value}" for name, value in (wanted or {}).items()),
            causes=by_cause,
            hits=by_account,
            webhooks=len(causes),
            given_up=sum(hit.given_up for hit in by_account),
            total={"missed": sum(hit.missed for hit in by_account), "has_more": any(h.has_more for h in by_account)},
            most=MOST_PROBLEMS if has_more else 0,
            recovery=self._recovery(request, by_account),
            recovery_url=self.url("webhook_changelist"),
            action_checkbox_name=ACTION_CHECKBOX_NAME,
        )

    def _failed(
        self, request: HttpRequest, period: Period, wanted: Mapping[str, str] | None
    ) -> tuple[dict[str, set[Cause]], bool]:
        """Return the webhooks with these causes in the period, and True if there may be more."""
        causes: dict[str, set[Cause]] = {}
        if wanted is None:
            return causes, False
        rows = Problem.objects.filter(last_seen_at__gte=period.since)
        if period.until is not None:
            rows = rows.filter(first_seen_at__lt=period.until)
        if not manages_all(request):
            own = own_rows(request, Webhook.objects.existing()).values_list("pk", flat=True)
            rows = rows.filter(webhook__in=list(own.order_by("-pk")[:MOST_PROBLEMS]))
        failures = list(rows.order_by("-last_seen_at").values_list("webhook", "result", "code")[:MOST_PROBLEMS])
        for webhook_id, result, code in failures:
            if is_meant(wanted, cause := Cause(result, code)):
                causes.setdefault(webhook_id, set()).add(cause)
        return causes, len(failures) == MOST_PROBLEMS

    def _hits(
        self, request: HttpRequest, causes: Mapping[str, set[Cause]], period: Period, wanted: Mapping[str, str]
    ) -> tuple[list[Hit], list[Hit]]:
        """Return the accounts and the causes."""
        rows = having_ids(Webhook.objects.select_related("owner", "health"), causes).order_by("url")
        given_up = period.given_up(list(rows))
        most_first = sorted(given_up, key=lambda webhook: -given_up[webhook])
        missed, more = missed_events(most_first, period.since, period.until, is_for_owner=not manages_all(request))
        of_webhook: defaultdict[str, dict[Cause, int]] = defaultdict(dict)
        for (pk, cause), number in missed.items():
            if is_meant(wanted, cause):
                of_webhook[pk][cause] = number
        accounts: dict[Any, Hit] = {}
        by_cause: dict[Cause, Hit] = {}
        for webhook, number in given_up.items():
            numbers = {**dict.fromkeys(causes[webhook.pk], 0), **of_webhook[webhook.pk]}
            if webhook.owner_id not in accounts:
                accounts[webhook.owner_id] = self._account(webhook, period, wanted)
            of_account = accounts[webhook.owner_id]
            of_account.given_up += number
            of_account.add(webhook, sum(numbers.values()), has_more=webhook.pk in more)
            for cause, events in numbers.items():
                hit = by_cause.setdefault(cause, _of_cause(cause, period))
                hit.add(webhook, events, has_more=webhook.pk in more)
        return _sorted(accounts.values()), _sorted(by_cause.values())

    def _account(self, webhook: Webhook, period: Period, wanted: Mapping[str, str]) -> Hit:
        name = gettext("the platform") if webhook.owner is None else owners().label(webhook.owner)
        return Hit(name=name, url=self.url("problem_changelist", **_query(period, wanted, webhook.owner)))

    def _recovery(self, request: HttpRequest, hits: Sequence[Hit]) -> list[str]:
        """Return the webhooks to send missed events to: those that can receive, of the accounts hit most."""
        if not may_replay(request):
            return []
        webhooks = [webhook for hit in hits for webhook in hit.webhooks.values()]
        ready = [each.pk for each in webhooks if each.status == Webhook.Status.ACTIVE and not each.is_deleted]
        return ready[:MAX_RECOVERED]


def _of_cause(cause: Cause, period: Period) -> Hit:
    query: dict[str, Any] = {"answer": cause.code} if cause.code else {"result": cause.result}
    if cause.result in UNATTEMPTED:
        query = {}
    return Hit(name=str(cause), url=f"?{urlencode({**period.query, **query})}")


def _sorted(hits: Iterable[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.missed, -hit.given_up, hit.name))


def _query(period: Period, cause: Mapping[str, str], owner: Any) -> dict[str, str]:
    query = {"seen": PERIOD_NAMES[period.window], "state": "all"} if period.window else {"state": "all"}
    return {**query, **cause, "owner": PLATFORM if owner is None else str(owner.pk)}
