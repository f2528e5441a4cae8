"""The state of an account's webhooks, and what needs attention; and the choice of an account."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Counters, Window
from ..models import Webhook, WebhookHealth
from ..models.health import Standing
from ..operations.portal_links import LinkSession
from ..pages.display import percent
from .base import AccountPage, SafePage, redirect
from .webhooks import state_of

__all__ = ["AccountsPage", "OverviewPage"]

MAX_WEBHOOKS = 1000
MAX_LISTED = 10
MAX_SUMMED = 200
"""The largest number of webhooks whose roll-ups of a day are read at once, one for each hour and webhook."""

FAMILIES = ("succeeded", "given_up", "response_time")


class AccountsPage(SafePage):
    """The choice of an account, for users who have several."""

    template_name = "webhooks_app/portal/accounts.html"
    title = _("Webhooks")

    def serves(self, session: LinkSession) -> bool:
        return not self.request.user.is_authenticated

    def get(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        accounts = self.accounts()
        if len(accounts) == 1:
            return redirect(f"{request.path}{accounts[0].key}/")
        return self.render_to_response(self.get_context_data(accounts=accounts))


class OverviewPage(AccountPage):
    """The state of an account's webhooks, and what needs attention."""

    template_name = "webhooks_app/portal/overview.html"
    section = "overview"
    title = _("Overview")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        rows = Webhook.objects.existing().owned_by(self.owner).select_related("health").order_by("-pk")
        webhooks = list(rows.defer("filter", "encrypted_headers")[:MAX_WEBHOOKS])
        attention = [webhook for webhook in webhooks if Standing.of(webhook).tone in ("bad", "late")]
        day = _last_day(webhooks)
        css, state, cause = _verdict(webhooks, attention, day)
        return super().get_context_data(
            state=state,
            state_css=css,
            cause=cause,
            number=len(webhooks),
            day=day,
            success=percent(day.succeeded, day.finished) if day.finished else "",
            p50=day.response_times.percentile(0.5),
            p95=day.response_times.percentile(0.95),
            attention=[(webhook, state_of(webhook)) for webhook in attention[:MAX_LISTED]],
            more=len(attention) - MAX_LISTED,
            **kwargs,
        )


def _last_day(webhooks: list[Webhook]) -> Counters:
    """Return the counters of the last 24 hours; for many webhooks as of a minute ago, without response times."""
    if len(webhooks) <= MAX_SUMMED:
        return reading.series(Window.DAY, [webhook.pk for webhook in webhooks], families=FAMILIES).total
    found = [WebhookHealth.of(webhook) for webhook in webhooks]
    recent = [health.recent.get(Window.DAY.value, {}) for health in found if health is not None]
    finished, given_up = (sum(each.get(name, 0) for each in recent) for name in ("finished", "given_up"))
    return Counters({"succeeded_at_once": finished - given_up, "given_up": given_up})


def _verdict(webhooks: list[Webhook], attention: list[Webhook], day: Counters) -> tuple[str, str, str]:
    """Return the state of all webhooks: a class, a word and a sentence."""
    if not webhooks:
        return "open", gettext("No webhooks yet"), gettext("Create one to be told about events as they happen.")
    if attention:
        text = ngettext("%(number)d webhook needs attention.", "%(number)d webhooks need attention.", len(attention))
        is_failing = any(Standing.of(webhook) is Standing.FAILING for webhook in attention)
        state = str(Standing.FAILING.label) if is_failing else gettext("Not everything is sent")
        return "bad", state, text % {"number": len(attention)}
    if not day.finished:
        return "good", str(Standing.HEALTHY.label), gettext("There were no deliveries in the last 24 hours.")
    text = gettext("%(rate)s of the deliveries of the last 24 hours succeeded.")
    return "good", str(Standing.HEALTHY.label), text % {"rate": percent(day.succeeded, day.finished)}
