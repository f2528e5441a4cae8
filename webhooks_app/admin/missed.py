"""Links from a webhook to the replay of its missed events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..models import Replay, Webhook
from ..operations import replays
from ..operations.replays import missed_since
from ..operations.rights import REPLAY
from .actions import ActingAdmin
from .owned import actor_of

MAX_RECOVERED = 50
"""Webhooks whose missed events are sent by one action."""


def may_replay(request: HttpRequest) -> bool:
    return actor_of(request).holds(REPLAY)


class MissedEvents(ActingAdmin):
    """Mixin for the admin of webhooks."""

    def has_replay_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, REPLAY, obj)

    @admin.action(description=_("Recover missed events"), permissions=["replay"])
    def replay_missed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """Redirect to the replay form, filled in for this webhook."""
        webhook = queryset.first()
        if webhook is None or queryset.count() > 1:
            self.message_user(request, gettext("Select a single webhook: the missed events differ."), messages.ERROR)
            return None
        return HttpResponseRedirect(self._plan_url(webhook))

    @admin.action(description=_("Send missed events"), permissions=["replay"])
    def send_missed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """Replay the events missed since the first failing period of the last week, and lead to the progress.

        Of several webhooks each is counted for a share of the time. Workers continue.
        """
        number = queryset.count()
        if number > MAX_RECOVERED:
            text = gettext("Select at most %(number)d webhooks.")
            self.message_user(request, text % {"number": MAX_RECOVERED}, messages.ERROR)
            return None
        return self.ask_and_carry_out(
            request,
            queryset,
            partial(replays.send_missed, max_seconds=replays.COUNT_SECONDS / max(1, number)),
            action="send_missed",
            history=_what_happened,
            leads_to=lambda _webhook, replay: self._replay_url(replay),
        )

    def missed(self, request: HttpRequest, webhook: Webhook) -> dict[str, Any]:
        """Return the number of missed events with a link to send them, if there are any and the user may do this."""
        is_ready = webhook.status == Webhook.Status.ACTIVE and webhook.paused_at is None
        if not is_ready or not self.may_run(request, "send_missed", webhook):
            return {}
        if not replays.failures_of(webhook):
            return {}
        found = replays.count_missed(webhook)
        if not found.number:
            return {}
        return {"missed": found, "send_missed_url": self.page_url(webhook, "act", "send_missed")}

    def _replay_url(self, replay: Replay) -> str:
        return reverse("admin:webhooks_app_replay_change", args=(replay.pk,), current_app=self.admin_site.name)

    def offer_replays(self, request: HttpRequest, webhooks: list[Webhook]) -> None:
        """Show a link to the replay form to users who may replay."""
        if not may_replay(request):
            return
        text = gettext('The webhook {webhook} may have missed events. <a href="{url}">Recover missed events</a>')
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


def _what_happened(replay: Replay) -> str:
    if replay.state == Replay.State.COUNTING:
        return gettext("The missed events are still being counted. They are sent when that is done.")
    return gettext("Started to send the missed events.")


def missed_by(webhooks: Sequence[Webhook]) -> list[str]:
    """Return a sentence about the number of events that ``send_missed`` would send."""
    found = [replays.count_missed(webhook) for webhook in webhooks]
    number = sum(missed.number for missed in found)
    if any(missed.has_more for missed in found):
        return [gettext("At least %(number)d events were missed.") % {"number": number}]
    return [ngettext("%(number)s event was missed.", "%(number)s events were missed.", number) % {"number": number}]
