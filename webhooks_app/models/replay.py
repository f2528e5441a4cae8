"""A replay: its selection of events, its progress, and the methods that control it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, ClassVar, Self

from django.conf import settings as django_settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..database.clock import now
from ..exceptions import WebhookStateError
from ..protocol.ids import first_id_at, id_before
from ..reasons import ReasonText, clipped
from ..signals import announce_deliveries
from .audit import Action, Audited
from .base import BaseQuerySet, atomic
from .fields import CurrentForeignKey, IdField, PartialIndex, ReasonField
from .limits import MAX_RATE
from .status import MAX_REASON_LENGTH
from .webhook import Webhook

LEAST_RATE = 0.1
MOST_CANCELLED = 5000
"""More than a replay can ever have pending."""

MOST_OPEN = 10
"""Maximum number of unfinished replays of one webhook."""


class ReplayQuerySet(BaseQuerySet["Replay"]):
    owner_path = "webhook__owner"

    def under_way(self) -> Self:
        """Return the replays with work for a worker."""
        return self.filter(state__in=(Replay.State.COUNTING, Replay.State.RUNNING))

    def open(self) -> Self:
        """Return the replays in progress, and those that can be started or resumed."""
        state = Replay.State
        return self.filter(state__in=(state.COUNTING, state.READY, state.RUNNING, state.PAUSED))

    def kept_no_longer(
        self, deliveries: models.QuerySet[Any], *, planned_before: datetime, ended_before: datetime
    ) -> Self:
        """Return the replays that nobody started in time, and the ended ones without any of these deliveries."""
        state = Replay.State
        unstarted = models.Q(state=state.READY, pk__lt=first_id_at("rpl", planned_before))
        over = (state.DONE, state.CANCELLED, state.STOPPED)
        ended = models.Q(state__in=over, pk__lt=first_id_at("rpl", ended_before))
        ended &= models.Q(finished_at=None) | models.Q(finished_at__lt=ended_before)
        return self.filter(unstarted | ended).exclude(models.Exists(deliveries.filter(replay=models.OuterRef("pk"))))


def missing_outcomes() -> list[str]:
    return [Replay.Outcome.MISSED.value, Replay.Outcome.GIVEN_UP.value, Replay.Outcome.CANCELLED.value]


class Replay(Audited):
    """The methods that change a row expect that the caller has locked it, as operations do."""

    audited_fields = ("webhook_id", "since", "until", "event_types", "states", "rate", "state")

    class State(models.TextChoices):
        COUNTING = "counting", _("counting")
        READY = "ready", _("ready")
        RUNNING = "running", _("running")
        PAUSED = "paused", _("paused")
        DONE = "done", _("done")
        CANCELLED = "cancelled", _("cancelled")
        STOPPED = "stopped", _("stopped")

    STEPS: ClassVar[Mapping[str, tuple[State, ...]]] = MappingProxyType(
        {
            "start": (State.READY,),
            "pause": (State.RUNNING,),
            "resume": (State.PAUSED, State.STOPPED),
            "cancel": (State.COUNTING, State.READY, State.RUNNING, State.PAUSED, State.STOPPED),
        }
    )
    """The steps that people take, each with the states that permit it."""

    RULES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "start": "replay_start_ready",
            "pause": "replay_pause_running",
            "resume": "replay_resume_halted",
            "cancel": "replay_cancel_open",
        }
    )
    """The reason why each of the ``STEPS`` is refused in other states."""

    class Outcome(models.TextChoices):
        """The outcome of an event at the webhook: missed without a delivery, succeeded if any delivery has succeeded,
        or else the state of the newest one.
        """

        MISSED = "missed", _("never queued")
        GIVEN_UP = "given_up", _("given up")
        CANCELLED = "cancelled", _("cancelled")
        SUCCEEDED = "succeeded", _("succeeded")

    id = IdField(prefix="rpl")
    webhook = CurrentForeignKey(
        Webhook,
        verbose_name=_("webhook"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="replays",
        db_constraint=False,  # planning must not wait for a claim
        db_index=False,
    )
    requested_by = CurrentForeignKey(
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
        _("event types"), default=list, blank=True, help_text=_("Empty for all subscribed types.")
    )
    states = models.JSONField(_("which events"), default=missing_outcomes)
    since = models.DateTimeField(_("from"))
    until = models.DateTimeField(_("to"), help_text=_("Later events are not included."))
    rate = models.FloatField(
        _("deliveries per second"),
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_RATE), MaxValueValidator(MAX_RATE)],
        help_text=_("Maximum rate of queueing. Empty for the default in the settings."),
    )
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.COUNTING, editable=False)
    state_reason = ReasonField(_("reason"), max_length=MAX_REASON_LENGTH, blank=True, editable=False)
    cursor = models.CharField(_("last examined event"), max_length=40, blank=True, editable=False)
    next_slot_at = models.DateTimeField(_("rate used up until"), null=True, editable=False)
    matched = models.PositiveIntegerField(_("found"), default=0, editable=False)
    queued = models.PositiveIntegerField(_("queued"), default=0, editable=False)
    examined = models.PositiveIntegerField(_("examined"), default=0, editable=False)
    failing = models.JSONField(_("failing periods"), default=list, editable=False)
    """The failing periods in its time range at planning, as returned by ``FailingPeriod.as_json``."""
    sample = models.JSONField(_("sample"), default=list, editable=False)
    created_at = models.DateTimeField(_("created"), default=now, editable=False)
    starts_when_counted = models.BooleanField(default=False, editable=False)
    """Whether it is started by the step that completes the count, without a person who has seen the number."""
    recovers_since = models.DateTimeField(
        _("recovers since"),
        null=True,
        editable=False,
        help_text=_("Start of the failure that the service recovers with it. Empty if somebody planned it."),
    )
    started_at = models.DateTimeField(_("started"), null=True, editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, editable=False)

    objects = ReplayQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("replay")
        verbose_name_plural = _("replays")
        default_permissions = ("view",)
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
        """Whether the replay has ended and cannot be resumed."""
        return self.state in (self.State.DONE, self.State.CANCELLED)

    @property
    def is_under_way(self) -> bool:
        return self.state in (self.State.COUNTING, self.State.RUNNING)

    @property
    def per_second(self) -> float:
        return float(self.rate or settings.REPLAY_RATE)

    def siblings(self) -> ReplayQuerySet:
        """Return the replays that recover the same failure, or only this one if somebody planned it."""
        rows = Replay.objects.using(self.alias)
        if self.recovers_since is None:
            return rows.filter(pk=self.pk)
        return rows.filter(webhook=self.webhook_id, recovers_since=self.recovers_since)

    def clean(self) -> None:
        if self.rate is not None and not math.isfinite(self.rate):
            raise ValidationError({"rate": _("Give a number.")})
        known = self.Outcome.values
        if not self.states or not set(self.states) <= set(known):
            message = _("Give one or more of: %(known)s.") % {"known": ", ".join(known)}
            raise ValidationError({"states": message})

    def lock(self) -> None:
        """Lock the webhook and the replay until the end of a transaction of ``writing()``, and reload them.

        The webhook is locked first, as everywhere. This also prevents the start of its other replays. Raise
        WebhookStateError if the replay is no longer kept.
        """
        self.webhook.lock()
        saved = self.lock_saved()
        if saved is None:
            raise WebhookStateError(ReasonText("replay_not_kept", id=self.id))
        self.adopt(saved)

    @atomic
    def start(self) -> None:
        """Start sending. Workers do the rest.

        Raise WebhookStateError unless the replay is ready, its webhook can receive events, and no other replay of the
        webhook is running.
        """
        with self.auditing(Action.REPLAY_STARTED):
            self.require("start")
            self.cursor, self.examined = "", 0
            self._run()

    @atomic
    def resume(self) -> None:
        """Continue a paused or stopped replay, first with cancelled deliveries. Raise WebhookStateError otherwise."""
        with self.auditing(Action.REPLAY_RESUMED):
            self.require("resume")
            self._go_back()
            self._run()

    @atomic
    def pause(self, reason: str = "") -> None:
        """Stop queueing until it is resumed. Queued deliveries are sent. Raise WebhookStateError unless running."""
        with self.auditing(Action.REPLAY_PAUSED, reason=reason):
            self.require("pause")
            self._change_state(self.State.PAUSED, reason=reason)

    @atomic
    def cancel(self, reason: str = "") -> None:
        """End the replay, and cancel its unclaimed deliveries. Raise WebhookStateError if it has ended.

        ``reason`` is for the owner.
        """
        with self.auditing(Action.REPLAY_CANCELLED, reason=reason):
            self.require("cancel")
            self._change_state(self.State.CANCELLED, reason=reason)
            self.deliveries.waiting().cancel("replay_cancelled")
            announce_deliveries(self.alias)  # workers skipped the others of the webhook meanwhile

    def permits(self, step: str) -> bool:
        """Return True if the state permits one of the ``STEPS``."""
        return self.state in self.STEPS[step]

    def require(self, step: str) -> None:
        """Raise WebhookStateError unless the state permits one of the ``STEPS``."""
        if not self.permits(step):
            state, rule = ReasonText(f"replay_{self.state}"), ReasonText(self.RULES[step])
            raise WebhookStateError(ReasonText("replay_state", id=self.id, state=state, rule=rule))

    def _go_back(self) -> None:
        """Move the cursor back so that deliveries cancelled with the webhook are queued again."""
        newest = self.deliveries.order_by("-pk").values_list("event_id", "state")[:MOST_CANCELLED]
        states: dict[str, str] = {}
        for event_id, state in newest:
            states.setdefault(event_id or "", state)
        cancelled = [event_id for event_id, state in states.items() if state == self.Outcome.CANCELLED]
        # Only events behind the cursor. After an earlier return it may not have reached the others again.
        if again := [event_id for event_id in cancelled if event_id <= self.cursor]:
            self.cursor = id_before(min(again))
            # Not below 0: a delivery that was cancelled and then sent by hand remains cancelled here, and counts again.
            self.queued = max(0, self.queued - len(again))

    def _run(self) -> None:
        self.webhook.require_sendable()
        running = Replay.objects.using(self.alias).filter(webhook=self.webhook_id, state=self.State.RUNNING)
        if (other := running.first()) is not None:
            raise WebhookStateError(ReasonText("another_replay_running", id=other.id))
        self.started_at = self.started_at or now()
        self.finished_at = None
        self._change_state(self.State.RUNNING, "started_at", "cursor", "examined", "queued")

    def _change_state(self, state: State, *also: str, reason: str = "") -> None:
        self.state, self.state_reason = state, clipped(reason, MAX_REASON_LENGTH)
        if self.is_over:
            self.finished_at = now()
        self.save(update_fields=["state", "state_reason", "finished_at", *also])
