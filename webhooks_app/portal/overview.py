"""The state of an account's webhooks, and what needs attention; and the choice of an account."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..maintenance.rollups import reading
from ..maintenance.rollups.reading import Counters, Window
from ..models import AuditEntry, MailPreference, Webhook
from ..models.rollup import id_of_account
from ..models.standing import FAILS
from ..operations.portal_links import LinkSession
from ..pages import charts
from ..pages.overview import happenings, name_of, retrying, tiles, webhook_rows
from ..pages.verdict import attention_in, verdict_of
from .base import AccountPage, SafePage
from .first_visit import Step, first_visit
from .webhooks import card

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
            return HttpResponseRedirect(f"{request.path}{accounts[0].key}/")
        return self.render_to_response(self.get_context_data(accounts=accounts))


class OverviewPage(AccountPage):
    """The state of an account's webhooks, and what needs attention."""

    template_name = "webhooks_app/portal/overview.html"
    section = "overview"
    is_live = True
    title = _("Overview")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        now = timezone.now()
        newest = Webhook.objects.existing().owned_by(self.owner).order_by("-pk")
        attention = attention_in(newest, now)
        listed = [pk for _standing, pk in attention.webhooks]
        listed = list(dict.fromkeys([*listed, *newest.values_list("pk", flat=True)[:MAX_LISTED]]))[:MAX_LISTED]
        loaded = newest.select_related("health", "lane").defer("filter", "encrypted_headers", "pending_headers")
        webhooks = loaded.in_bulk(listed)
        account, window = [id_of_account(self.owner.pk)], charts.window_of(self.request)
        series = reading.series(window, account)
        day = series if window is Window.DAY else reading.series(Window.DAY, account)
        retries = retrying([pk for standing, pk in attention.webhooks if standing in FAILS], now)
        return super().get_context_data(
            verdict=verdict_of(attention, day.total),
            number=attention.number,
            first_visit=self._first_visit(attention.number, newest, day.total),
            is_whole=attention.is_whole,
            tiles=tiles(day, waiting=(_("Retrying"), retries), url=self.deliveries_url),
            is_expected=retries != "0",
            gravest=self._gravest(webhooks.get(listed[0])) if attention.webhooks else None,
            attention=len(attention.webhooks),
            webhook_rows=webhook_rows(
                [webhooks[pk] for pk in listed if pk in webhooks],
                Window.DAY,
                url=lambda pk: self.url("webhook", pk),
            ),
            span=charts.TITLES[Window.DAY],
            happenings=happenings(AuditEntry.objects.owned_by(self.owner).for_owner(), webhooks, url=self._url_of),
            **charts.shown(series, window, self.deliveries_url),
            mails=MailPreference.Mails(MailPreference.objects.of(self.owner)).label,
            **kwargs,
        )

    def _first_visit(self, number: int, webhooks: Any, day: Counters) -> list[Step]:
        return first_visit(self, webhooks.select_related("health")) if number < 2 and not day.finished else []

    def _gravest(self, webhook: Webhook | None) -> dict[str, Any] | None:
        """Return the card of the webhook that needs attention most, unless it was deleted in between."""
        if webhook is None:
            return None
        return {**card(self, webhook, ""), "name": name_of(webhook), "url": self.url("webhook", webhook.pk)}

    def _url_of(self, pk: str) -> str:
        return self.url({"wh": "webhook", "dlv": "delivery", "rpl": "replay"}[pk.partition("_")[0]], pk)
