"""Impact: the accounts and webhooks that a failure has hit in a period, from the problems and the recent results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups.reading import Window
from ..models import DeliveryAttempt, Problem, Webhook, WebhookHealth
from ..owners import owners
from .filters import PLATFORM, AnswerForm
from .missed import MAX_RECOVERED, may_replay
from .overview import TITLES
from .owned import OwnedAdmin, manages_all, own_rows

MOST_PROBLEMS = 2000
"""Problems that the page reads, the latest first."""

PERIODS = {Window.HOUR: "hour", Window.DAY: "day", Window.WEEK: "week"}
"""The periods, with the values of the filter of the list of problems."""


class CauseForm(AnswerForm):
    result = forms.ChoiceField(
        label=_("Result"), required=False, choices=[("", _("All")), *DeliveryAttempt.Result.choices[1:]]
    )


@dataclass(kw_only=True, slots=True)
class Hit:
    """An account with failures."""

    account: str
    problems_url: str
    webhooks: list[Webhook] = field(default_factory=list)
    given_up: int = 0


def is_meant(cause: Mapping[str, str], result: str, code: int) -> bool:
    """Return True for a problem with this result, and with this code, class of codes or timeout."""
    answer = cause.get("answer", "")
    if cause.get("result") and result != cause["result"]:
        return False
    if answer.endswith("xx"):
        return code // 100 == int(answer[0])
    return not answer or answer == (str(code) if answer.isdecimal() else result)


class ImpactPage(OwnedAdmin):
    """Mixin for the admin of problems."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.impact_view)
        return [path("impact/", view, name="webhooks_app_problem_impact"), *super().get_urls()]

    def impact_view(self, request: HttpRequest) -> TemplateResponse:
        """Show the accounts that a failure has hit, those with the most deliveries given up first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        window = {each.value: each for each in PERIODS}.get(request.GET.get("window", ""), Window.HOUR)
        form = CauseForm(request.GET, auto_id="filter-%s")
        cause = {name: value for name, value in form.cleaned_data.items() if value} if form.is_valid() else None
        ids, has_more = self._failed(request, window, cause)
        hits = self._hits(ids, window, cause or {})
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Impact"),
            "opts": self.opts,
            "media": self.media,
            "form": form,
            "window": window.value,
            "windows": [(each.value, TITLES[each], each is window) for each in PERIODS],
            "kept_query": "".join(f"&{name}={value}" for name, value in (cause or {}).items()),
            "hits": hits,
            "webhooks": len(ids),
            "given_up": sum(hit.given_up for hit in hits),
            "most": MOST_PROBLEMS if has_more else 0,
            "recovery": self._recovery(request, hits),
            "recovery_url": reverse("admin:webhooks_app_webhook_changelist", current_app=self.admin_site.name),
            "action_checkbox_name": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/webhooks_app/problem/impact.html", context)

    def _failed(self, request: HttpRequest, window: Window, cause: Mapping[str, str] | None) -> tuple[list[str], bool]:
        """Return the webhooks with this cause in the period, and True if there may be more."""
        if cause is None:
            return [], False
        rows = Problem.objects.filter(last_seen_at__gte=timezone.now() - window.step * window.steps)
        if not manages_all(request):
            own = own_rows(request, Webhook.objects.existing()).values_list("pk", flat=True)
            rows = rows.filter(webhook__in=list(own.order_by("-pk")[:MOST_PROBLEMS]))
        latest = rows.order_by("-last_seen_at").values_list("webhook", "result", "code")[:MOST_PROBLEMS]
        found = list(latest)
        meant = dict.fromkeys(pk for pk, result, code in found if is_meant(cause, result, code))
        return list(meant), len(found) == MOST_PROBLEMS

    def _hits(self, webhook_ids: list[str], window: Window, cause: Mapping[str, str]) -> list[Hit]:
        listed = reverse("admin:webhooks_app_problem_changelist", current_app=self.admin_site.name)
        hits: dict[Any, Hit] = {}
        for webhook in Webhook.objects.filter(pk__in=webhook_ids).select_related("owner", "health").order_by("url"):
            owner = webhook.owner
            query = _query(window, cause, owner)
            label = gettext("the platform") if owner is None else owners().label(owner)
            hit = hits.setdefault(webhook.owner_id, Hit(account=label, problems_url=f"{listed}?{query}"))
            health = WebhookHealth.of(webhook)
            hit.webhooks.append(webhook)
            hit.given_up += (health.recent if health else {}).get(window.value, {}).get("given_up", 0)
        return sorted(hits.values(), key=lambda hit: (-hit.given_up, hit.account))

    def _recovery(self, request: HttpRequest, hits: Sequence[Hit]) -> list[str]:
        """Return the webhooks to send missed events to: those that can receive, of the accounts hit most."""
        if not may_replay(request):
            return []
        webhooks = [webhook for hit in hits for webhook in hit.webhooks]
        ready = [each.pk for each in webhooks if each.status == Webhook.Status.ACTIVE and each.deleted_at is None]
        return ready[:MAX_RECOVERED]


def _query(window: Window, cause: Mapping[str, str], owner: Any) -> str:
    query = {"seen": PERIODS[window], "state": "all"}
    if "answer" in cause:
        query["answer"] = cause["answer"]
    if "result" in cause:
        query["result__exact"] = cause["result"]
    query["owner"] = PLATFORM if owner is None else str(owner.pk)
    return urlencode(query)
