"""Recovering what a webhook missed: a plan with a count, its start, and its progress."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, Replay
from ..models.health import FailingPeriod
from ..models.replay import missing_outcomes
from ..operations import replays
from ..operations.rights import REPLAY, VIEW_DELIVERIES
from ..pages.filters import moment_field
from ..pages.replays import failing_sentences, latest_of, moved_start, status_in_words
from ..pages.transcript import transcript
from .base import AccountPage, WebhookFormPage, redirect

__all__ = ["NewReplayPage", "ReplayPage"]

VERBS: dict[str, tuple[Any, Any]] = {
    "start": (_("Send them"), replays.start),
    "pause": (_("Pause"), replays.pause),
    "resume": (_("Resume"), replays.resume),
    "cancel": (_("Discard"), replays.cancel),
}
"""The label and the operation of each step."""


class ReplayForm(forms.Form):
    since = moment_field(_("From"), help_text=_("Default: when the webhook began to fail."))
    until = moment_field(_("To"), help_text=_("Default: now."))
    states = forms.MultipleChoiceField(
        label=_("Which events"),
        choices=Replay.Outcome.choices,
        initial=missing_outcomes,
        widget=forms.CheckboxSelectMultiple,
    )


class NewReplayPage(WebhookFormPage):
    """The form for sending once more what a webhook missed. Nothing is sent before the start."""

    template_name = "webhooks_app/portal/form.html"
    title = _("Recover missed events")
    right = REPLAY
    form_class = ReplayForm
    submit = _("Count them")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            intro=_("The events are counted first. Nothing is sent until you start."),
            notes=failing_sentences(replays.failures_of(self.webhook)),
            **kwargs,
        )

    def carry_out(self, form: Any) -> HttpResponse:
        replay = replays.plan(self.webhook, actor=self.actor, **form.cleaned_data)
        if moved := moved_start(replay, form.cleaned_data["since"]):
            messages.warning(self.request, moved, fail_silently=True)
        return redirect(self.url("replay", replay.pk))


class ReplayPage(AccountPage):
    """The count of missed events, the steps of sending them, and the progress."""

    template_name = "webhooks_app/portal/replay.html"
    section = "webhooks"
    title = _("Recovery of missed events")
    right = VIEW_DELIVERIES

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        replay: Replay = self.find_replay()
        latest = latest_of(replay)
        outcomes = dict(Replay.Outcome.choices)
        return super().get_context_data(
            replay=replay,
            is_done=not latest.seconds,
            subject=replay.webhook.url,
            status=status_in_words(replay),
            notes=failing_sentences(FailingPeriod.from_json(kept) for kept in replay.failing),
            latest=latest,
            **self._answer(latest.answered),
            sample=[
                {
                    **each,
                    "created": datetime.fromisoformat(each["created"]),
                    "outcome": outcomes.get(each["state"], each["state"]),
                }
                for each in replay.sample
            ],
            steps=self._steps(replay),
            **kwargs,
        )

    def _answer(self, pk: str) -> dict[str, Any]:
        """Return the last attempt of a delivery with the answer."""
        found = Delivery.objects.owned_by(self.owner).for_owner().filter(pk=pk)
        delivery = found.select_related("event", "webhook").first() if pk else None
        if delivery is None:
            return {}
        attempts = transcript(delivery.shown_attempts(), delivery, shows_body=True, url=self.delivery_url)
        return {"delivery": delivery, "attempts": attempts[-1:]}

    def find_replay(self) -> Replay:
        replay: Replay = self.find(Replay.objects.select_related("webhook"), self.kwargs["pk"])
        return replay

    def _steps(self, replay: Replay) -> list[tuple[Any, str]]:
        """Return the steps that the user may take, with their URLs."""
        if not self.may(REPLAY):
            return []
        return [
            (label, self.url("replay-step", replay.pk, verb))
            for verb, (label, _operation) in VERBS.items()
            if replay.permits(verb)
        ]


class ReplayPart(ReplayPage):
    """The part of a page with the progress of a replay, for reloading."""

    template_name = "webhooks_app/portal/parts/replay.html"


class ReplayStep(ReplayPage):
    """A step of a replay, such as its start."""

    http_method_names = ("post",)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if (step := VERBS.get(self.kwargs["verb"])) is None:
            raise Http404
        replay, (_label, operation) = self.find_replay(), step
        self.perform(lambda: operation(replay, actor=self.actor))
        return redirect(self.url("replay", replay.pk))
