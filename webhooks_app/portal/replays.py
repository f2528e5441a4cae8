"""Recovering what a webhook missed: a plan with a count, its start, and its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, Replay
from ..models.replay import missing_outcomes
from ..operations import replays
from ..operations.rights import REPLAY, VIEW_DELIVERIES
from ..pages.confirmations import REPLAY as CONFIRMATIONS
from ..pages.confirmations import Confirmation, pending_of_replays
from ..pages.filters import moment_field
from ..pages.replays import (
    failing_sentences,
    latest_of,
    moved_start,
    notes_about,
    sample_of,
    status_in_words,
    why_not_startable,
)
from ..pages.transcript import transcript
from .actions import ACTIONS, Button
from .base import AccountPage, ConfirmationPage, WebhookFormPage, redirect

__all__ = ["NewReplayPage", "ReplayPage"]


class Step(NamedTuple):
    label: Any
    operation: Callable[..., Any]
    confirmation: Confirmation


STEPS = {
    "start": Step(_("Send them"), replays.start, CONFIRMATIONS["start"]),
    "pause": Step(_("Pause"), replays.pause, CONFIRMATIONS["pause"]),
    "resume": Step(_("Resume"), replays.resume, CONFIRMATIONS["resume"]),
    "cancel": Step(_("Cancel the replay"), replays.cancel, CONFIRMATIONS["cancel"]),
}
"""The steps of a replay. Those that destroy are confirmed first."""


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
            warning=why_not_startable(self.webhook),
            remedy=self._remedy(),
            notes=failing_sentences(replays.failures_of(self.webhook)),
            **kwargs,
        )

    def _remedy(self) -> Button | None:
        """Return the link that lets the replay start, if the state of the webhook prevents it."""
        for name in ("enable", "verify") if self.webhook.is_stopped else ():
            action = ACTIONS[name]
            if action.is_offered(self.webhook) and self.may(action.right):
                return Button(action.label, self.url("webhook-action", self.webhook.pk, name))
        return None

    def carry_out(self, form: Any) -> HttpResponse:
        replay = replays.plan(self.webhook, actor=self.actor, **form.cleaned_data)
        if moved := moved_start(replay, form.cleaned_data["since"]):
            messages.warning(self.request, moved, fail_silently=True)
        return redirect(self.url("replay", replay.pk))


class ReplayPage(AccountPage):
    """The count of missed events, the steps of sending them, and the progress."""

    template_name = "webhooks_app/portal/replay.html"
    section = "webhooks"
    is_live = True
    title = _("Replay of missed events")
    right = VIEW_DELIVERIES

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        replay = replay_of(self)
        latest = latest_of(replay)
        return super().get_context_data(
            replay=replay,
            is_done=not latest.seconds,
            subject=replay.webhook.url,
            status=status_in_words(replay, latest),
            notes=notes_about(replay),
            latest=latest,
            **self._answer(latest.answered),
            sample=sample_of(replay),
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

    def _steps(self, replay: Replay) -> list[Button]:
        """Return the buttons of the steps that the user may take."""
        if not self.may(REPLAY):
            return []
        return [
            Button(step.label, self.url("replay-step", replay.pk, verb), step.confirmation.is_destructive)
            for verb, step in STEPS.items()
            if replay.permits(verb)
        ]


def replay_of(page: AccountPage) -> Replay:
    replay: Replay = page.find(Replay.objects.select_related("webhook"), page.kwargs["pk"])
    return replay


class ReplayStepPage(ConfirmationPage):
    """The confirmation of a step of a replay."""

    section = "webhooks"
    right = VIEW_DELIVERIES

    @property
    def step(self) -> Step:
        try:
            return STEPS[self.kwargs["verb"]]
        except KeyError:
            raise Http404 from None

    @property
    def confirmation(self) -> Confirmation:
        return self.step.confirmation

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._refused() or super().get(request, *args, **kwargs)

    def _refused(self) -> HttpResponse | None:
        """Return the answer to a step that the replay does not offer, with the reason; None if it offers it."""
        replay, _step = replay_of(self), self.step
        self.actor.require(REPLAY, self.owner.pk)
        if self.perform(lambda: replay.require(self.kwargs["verb"])):
            return None
        return redirect(self.url("replay", replay.pk))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        replay, step = replay_of(self), self.step
        self.actor.require(REPLAY, self.owner.pk)
        return super().get_context_data(
            title=step.label,
            subject=replay.webhook.url,
            consequences=pending_of_replays(self.kwargs["verb"], [replay]),
            cancel_url=self.url("replay", replay.pk),
            **kwargs,
        )

    def carry_out(self, **reason: str) -> HttpResponse:
        if refused := self._refused():
            return refused
        replay, step = replay_of(self), self.step
        self.perform(lambda: step.operation(replay, actor=self.actor, **reason))
        return redirect(self.url("replay", replay.pk))
