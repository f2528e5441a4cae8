"""Recovering what a webhook missed: a plan with a count, its start, and its progress."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from ..models import Replay
from ..operations import replays
from ..operations.rights import VIEW_DELIVERIES
from ..pages.actions import REPLAY, WEBHOOK, WEBHOOK_AND_MISSED, Button
from ..pages.replays import (
    MissedEventsForm,
    failing_sentences,
    last_answer,
    moved_start,
    progress_of,
)
from .actions import buttons_of
from .base import AccountPage, WebhookFormPage

__all__ = ["NewReplayPage", "ReplayPage"]


class NewReplayPage(WebhookFormPage):
    """The form for sending once more what a webhook missed. Nothing is sent before the start."""

    template_name = "webhooks_app/portal/form.html"
    title = WEBHOOK["replay_missed"].label
    right = WEBHOOK["replay_missed"].right
    form_class = MissedEventsForm
    submit = _("Count them")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            intro=_("The events are counted first. Nothing is sent until you start."),
            warning=WEBHOOK_AND_MISSED["send_missed"].refusal(self.webhook),
            remedy=self._remedy(),
            notes=failing_sentences(replays.failures_of(self.webhook)),
            **kwargs,
        )

    def _remedy(self) -> Button | None:
        """Return the link that lets the replay start, if the state of the webhook prevents it."""
        if not self.webhook.is_stopped:
            return None
        remedies = {name: WEBHOOK[name] for name in ("enable", "verify")}
        links = buttons_of(self, remedies, self.webhook, partial(self.url, "webhook-action", self.webhook.pk))
        return next(links, None)

    def carry_out(self, form: Any) -> HttpResponse:
        replay = replays.plan(self.webhook, actor=self.actor, **form.cleaned_data)
        if moved := moved_start(replay, form.cleaned_data["since"]):
            messages.warning(self.request, moved, fail_silently=True)
        return HttpResponseRedirect(self.url("replay", replay.pk))


class ReplayPage(AccountPage):
    """The count of missed events, the steps of sending them, and the progress."""

    template_name = "webhooks_app/portal/replay.html"
    section = "webhooks"
    is_live = True
    title = _("Replay")
    right = VIEW_DELIVERIES

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        replay: Replay = self.find(Replay.objects.select_related("webhook"), self.kwargs["pk"])
        progress = progress_of(replay, event_url=lambda pk: self.url("event", pk))
        answer = last_answer(replay.deliveries.for_owner(), progress["latest"].answered, url=self.delivery_url)
        return super().get_context_data(
            subject=replay.webhook.url,
            deliveries_url=self.deliveries_url(replay_id=replay.pk),
            **progress,
            **answer,
            steps=list(buttons_of(self, REPLAY, replay, lambda name: self.url("replay-step", replay.pk, name))),
            **kwargs,
        )
