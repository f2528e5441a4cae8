"""Links from a webhook to the replay of its missed events."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Webhook
from ..operations.replays import missed_since
from ..operations.rights import REPLAY
from .actions import ActingAdmin
from .owned import actor_of


def may_replay(request: HttpRequest) -> bool:
    return actor_of(request).holds(REPLAY)


class MissedEvents(ActingAdmin):
    """Mixin for the admin of webhooks."""

    def has_replay_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, REPLAY, obj)

    @admin.action(description=_("Replay missed events"), permissions=["replay"])
    def replay_missed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """Redirect to the replay form, filled in for this webhook."""
        webhook = queryset.first()
        if webhook is None or queryset.count() > 1:
            self.message_user(request, gettext("Select a single webhook: the missed events differ."), messages.ERROR)
            return None
        return HttpResponseRedirect(self._plan_url(webhook))

    def offer_replays(self, request: HttpRequest, webhooks: list[Webhook]) -> None:
        """Show a link to the replay form to users who may replay."""
        if not may_replay(request):
            return
        text = gettext('The webhook {webhook} may have missed events. <a href="{url}">Replay missed events</a>')
        for webhook in webhooks:
            offer = format_html(text, webhook=webhook.url, url=self._plan_url(webhook))
            self.message_user(request, offer, messages.INFO)

    def _plan_url(self, webhook: Webhook) -> str:
        since = timezone.localtime(missed_since(webhook)).strftime("%Y-%m-%dT%H:%M:%S")
        return reverse(
            "admin:webhooks_app_replay_add",
            current_app=self.admin_site.name,
            query={"webhook": webhook.pk, "since": since},
        )
