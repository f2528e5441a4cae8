"""The state of an account's webhooks, and what needs attention; and the choice of an account."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Counters, Window
from ..models import MailPreference, Webhook
from ..models.rollup import id_of_account
from ..models.standing import healths_of
from ..operations.portal_links import LinkSession
from ..pages import charts
from ..pages.display import percent
from ..pages.health import in_short
from ..pages.verdict import attention_in, verdict_of
from .base import AccountPage, SafePage, redirect
from .first_visit import Step, first_visit

__all__ = ["AccountsPage", "OverviewPage"]

MAX_LISTED = 10


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
    is_live = True
    title = _("Overview")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        newest = Webhook.objects.existing().owned_by(self.owner).order_by("-pk")
        attention = attention_in(newest, timezone.now())
        listed = [pk for _standing, pk in attention.webhooks[:MAX_LISTED]]
        webhooks = (
            newest.select_related("health").defer("filter", "encrypted_headers", "pending_headers").in_bulk(listed)
        )
        account, window = [id_of_account(self.owner.pk)], charts.window_of(self.request)
        series = reading.series(window, account)
        day = (series if window is Window.DAY else reading.series(Window.DAY, account)).total
        healths = healths_of(webhooks.values())
        return super().get_context_data(
            verdict=verdict_of(attention, day),
            number=attention.number,
            first_visit=self._first_visit(attention.number, newest, day),
            is_whole=attention.is_whole,
            day=day,
            success=percent(day.succeeded, day.finished) if day.finished else "",
            p50=day.response_times.percentile(0.5),
            p95=day.response_times.percentile(0.95),
            attention=[
                (webhooks[pk], healths[pk].standing, in_short(webhooks[pk], healths[pk]))
                for pk in listed
                if pk in webhooks
            ],
            more=len(attention.webhooks) - MAX_LISTED,
            windows=charts.windows(window),
            **charts.shown(series, window, self._listed),
            mails=MailPreference.Mails(MailPreference.objects.of(self.owner)).label,
            **kwargs,
        )

    def _first_visit(self, number: int, webhooks: Any, day: Counters) -> list[Step]:
        return first_visit(self, webhooks.select_related("health")) if number < 2 and not day.finished else []

    def _listed(self, **filters: str) -> str:
        """Return the URL of the list of deliveries with these filters of the charts."""
        return reverse("webhooks_portal:deliveries", args=[self.account.key], query=filters)
