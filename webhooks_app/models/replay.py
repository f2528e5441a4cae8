"""Sending many events of a time once more: what is to be sent, how far it is, and the verbs that steer it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Self

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..database.sql import writing
from ..exceptions import WebhookStateError
from ..protocol.ids import first_id_at, id_before
from .audit import Action, Audited
from .base import BaseQuerySet
from .fields import AccountField, IdField, PartialIndex
from .limits import MAX_RATE
from .webhook import MAX_REASON_LENGTH, Webhook

LEAST_RATE = 0.1
MOST_CANCELLED = 5000
"""More than may ever wait for one webhook because of a replay."""

MOST_OPEN = 10
"""Replays of one webhook that may be neither over nor stopped."""


class ReplayQuerySet(BaseQuerySet["Replay"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(webhook__owner=owner)

    def under_way(self) -> Self:
        """Return those that a worker has to carry on."""
        return self.filter(state__in=(Replay.State.COUNTING, Replay.State.RUNNING))

    def open(self) -> Self:
        """Return those that are to be carried on, or that somebody may be about to carry on."""
        state = Replay.State
        return self.filter(state__in=(state.COUNTING, state.READY, state.RUNNING, state.PAUSED))

    def kept_no_longer(
        self, deliveries: models.QuerySet[Any], *, planned_before: datetime, ended_before: datetime
    ) -> Self:
        """Return those that nobody started in time, and those that ended long ago and have none of these deliveries."""
        state = Replay.State
        unstarted = models.Q(state=state.READY, pk__lt=first_id_at("rpl", planned_before))
        over = (state.DONE, state.CANCELLED, state.STOPPED)
        ended = models.Q(state__in=over, pk__lt=first_id_at("rpl", ended_before))
        ended &= models.Q(finished_at=None) | models.Q(finished_at__lt=ended_before)
        return self.filter(unstarted | ended).exclude(models.Exists(deliveries.filter(replay=models.OuterRef("pk"))))


def missing_outcomes() -> list[str]:
    return [Replay.Outcome.MISSED.value, Replay.Outcome.GIVEN_UP.value, Replay.Outcome.CANCELLED.value]


class Replay(Audited):
    audited_fields = ("webhook_id", "since", "until", "event_types", "states", "rate", "state")

    class State(models.TextChoices):
        COUNTING = "counting", _("counting")
        READY = "ready", _("ready")
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        DONE = "done", _("done")
        CANCELLED = "cancelled", _("cancelled")
        STOPPED = "stopped", _("stopped")

    class Outcome(models.TextChoices):
        """What became of an event at the webhook: of its newest delivery, or that there never was one."""

        MISSED = "missed", _("missed: never queued")
        GIVEN_UP = "given_up", _("given up")
        CANCELLED = "cancelled", _("cancelled")
        SUCCEEDED = "succeeded", _("succeeded")

    id = IdField(prefix="rpl")
    webhook = models.ForeignKey(
        Webhook,
        verbose_name=_("webhook"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="replays",
        db_constraint=False,  # or whoever plans would wait for whoever claims
        db_index=False,
    )
    requested_by = AccountField(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("requested by"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_constraint=False,  # checking it would lock the user's row after those of the queue
        db_index=False,
    )
    event_types = models.JSONField(
        _("event types"), default=list, blank=True, help_text=_("Empty for all that the webhook is subscribed to.")
    )
    states = models.JSONField(_("which events"), default=missing_outcomes)
    since = models.DateTimeField(_("from"))
    until = models.DateTimeField(_("to"), help_text=_("Later events are not included."))
    rate = models.FloatField(
        _("deliveries a second"),
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_RATE), MaxValueValidator(MAX_RATE)],
        help_text=_("At most so many are queued. Empty for what the settings say."),
    )
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.COUNTING, editable=False)
    state_reason = models.CharField(_("reason"), max_length=MAX_REASON_LENGTH, blank=True, editable=False)
    cursor = models.CharField(_("last event that was looked at"), max_length=40, blank=True, editable=False)
    next_slot_at = models.DateTimeField(_("rate used up until"), null=True, editable=False)
    matched = models.PositiveIntegerField(_("found"), default=0, editable=False)
    queued = models.PositiveIntegerField(_("queued"), default=0, editable=False)
    examined = models.PositiveIntegerField(_("looked at"), default=0, editable=False)
    failing = models.JSONField(_("failing periods"), default=list, editable=False)
    """The failing periods in its time when it was planned, as ``FailingPeriod.as_json`` returns them."""
    sample = models.JSONField(_("sample"), default=list, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    started_at = models.DateTimeField(_("started"), null=True, editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, editable=False)

    objects = ReplayQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("replay")
        verbose_name_plural = _("replays")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("webhook", "-id"), name="webhooks_replay_webhook"),
            PartialIndex(
                fields=("state",), only=models.Q(state__in=("counting", "running")), name="webhooks_replay_under_way"
            ),
        )

    def __str__(self) -> str:
        return self.id

    @property
    def owner_id(self) -> Any:
        return self.webhook.owner_id

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more will ever come of it."""
        return self.state in (self.State.DONE, self.State.CANCELLED)

    @property
    def is_under_way(self) -> bool:
        return self.state in (self.State.COUNTING, self.State.RUNNING)

    @property
    def per_second(self) -> float:
        return float(self.rate or settings.REPLAY_RATE)

    def clean(self) -> None:
        if self.rate is not None and not math.isfinite(self.rate):
            raise ValidationError({"rate": _("Give a number.")})
        known = self.Outcome.values
        if not self.states or not set(self.states) <= set(known):
            message = _("Give one or more of: %(known)s.") % {"known": ", ".join(known)}
            raise ValidationError({"states": message})

    def start(self) -> None:
        """Begin to send what was found; workers carry it on from here.

        Raises WebhookStateError unless it is ready, its webhook can receive, and none of its webhook's runs already.
        """
        with self._changing(Action.REPLAY_STARTED):
            self._require("start", self.State.READY)
            self.cursor, self.examined = "", 0
            self._run()

    def resume(self) -> None:
        """Go on where it was paused or stopped, with what was cancelled then first. Raises WebhookStateError."""
        with self._changing(Action.REPLAY_RESUMED):
            self._require("resume", self.State.PAUSED, self.State.STOPPED)
            self._go_back()
            self._run()

    def pause(self) -> None:
        """Queue nothing more until it is resumed; what was queued is sent. Raises WebhookStateError."""
        with self._changing(Action.REPLAY_PAUSED):
            self._require("pause", self.State.RUNNING)
            self._change_state(self.State.PAUSED)

    def cancel(self) -> None:
        """End it for good, and cancel what it queued and what is not being sent yet. Raises WebhookStateError."""
        with self._changing(Action.REPLAY_CANCELLED):
            ended = (self.State.DONE, self.State.CANCELLED)
            self._require("cancel", *(state for state in self.State if state not in ended))
            self._change_state(self.State.CANCELLED)
            self.deliveries.waiting().cancel("replay_cancelled")

    @contextmanager
    def _changing(self, action: Action) -> Iterator[None]:
        """Keep everyone else from this replay, and its webhook's others from starting, and take it as it is saved.

        The webhook first, as everywhere.
        """
        using = self.alias
        with writing(using, Replay):
            self.webhook.lock()
            saved = Replay.objects.using(using).select_for_update().filter(pk=self.pk).first()
            if saved is None:
                raise WebhookStateError(f"Replay {self.id} is no longer kept. Plan another.")
            for field in self._meta.concrete_fields:
                setattr(self, field.attname, getattr(saved, field.attname))
            with self.auditing(action):
                yield

    def _require(self, verb: str, *states: State) -> None:
        if self.state not in states:
            raise WebhookStateError(
                f"Replay {self.id} is {self.state}; {verb} takes one that is {' or '.join(states)}."
            )

    def _go_back(self) -> None:
        """Have queued again what was cancelled when the webhook was stopped."""
        newest = self.deliveries.order_by("-pk").values_list("event_id", "state")[:MOST_CANCELLED]
        states: dict[str, str] = {}
        for event_id, state in newest:
            states.setdefault(event_id or "", state)
        cancelled = [event_id for event_id, state in states.items() if state == self.Outcome.CANCELLED]
        # Behind the cursor, because it may have gone back before and not have come to them again.
        if again := [event_id for event_id in cancelled if event_id <= self.cursor]:
            self.cursor = id_before(min(again))
            # Not below 0: what was cancelled and then sent by hand stays cancelled here, and is found each time.
            self.queued = max(0, self.queued - len(again))

    def _run(self) -> None:
        self.webhook.require_sendable()
        running = Replay.objects.using(self.alias).filter(webhook=self.webhook_id, state=self.State.RUNNING)
        if (other := running.first()) is not None:
            raise WebhookStateError(f"Replay {other.id} of this webhook is running. Wait for it, pause or cancel it.")
        self.started_at = self.started_at or timezone.now()
        self.finished_at = None
        self._change_state(self.State.RUNNING, "started_at", "cursor", "examined", "queued")

    def _change_state(self, state: State, *also: str, reason: str = "") -> None:
        self.state, self.state_reason = state, reason[:MAX_REASON_LENGTH]
        if self.is_over:
            self.finished_at = timezone.now()
        self.save(update_fields=["state", "state_reason", "finished_at", *also])
