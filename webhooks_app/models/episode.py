"""An episode: a failure of a webhook with automatic recovery, until its missed events are sent again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..database.clock import now
from ..reasons import code_of
from .base import BaseModel, BaseQuerySet
from .health import WebhookHealth
from .replay import Replay
from .webhook import Webhook

DELAYS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 30, 60))
"""The time from a failure to the next recovery attempt, or from one replay to the next. The last one is repeated."""

OWN_PAUSE = "receiver_fails_again"
"""The code of the reason with which the runner pauses a recovery."""

WITH_WEBHOOK = ("webhook_was_disabled", "verification_failed")
"""The codes of the reasons of replays that were stopped with their webhook."""


def delay_after(number: int) -> timedelta:
    """Return the time before the next recovery attempt, after this number of them."""
    return DELAYS[min(number, len(DELAYS) - 1)]


def is_halted(replay_state: str, reason_code: str) -> bool:
    """Return True if a person has paused the replay of a recovery, or an error has stopped it."""
    if replay_state == Replay.State.PAUSED:
        return reason_code != OWN_PAUSE
    return replay_state == Replay.State.STOPPED and reason_code not in WITH_WEBHOOK


class EpisodeQuerySet(BaseQuerySet["Episode"]):
    def due(self, moment: datetime) -> Self:
        """Return the episodes whose next step is due, the longest waiting first."""
        return self.filter(next_step_at__lte=moment).order_by("next_step_at")

    def with_halted_replay(self) -> set[str]:
        """Return the webhooks of these episodes whose replay a person has paused, or an error has stopped."""
        began = dict(self.values_list("pk", "began_at"))
        replays = Replay.objects.using(self.db).filter(webhook__in=began, recovers_since__in=began.values())
        rows = replays.order_by("pk").values_list("webhook", "recovers_since", "state", "state_reason")
        latest = {pk: (state, reason) for pk, since, state, reason in rows if since == began[pk]}
        return {pk for pk, (state, reason) in latest.items() if is_halted(state, code_of(reason))}

    def begin(self, webhook: Webhook) -> None:
        """Start the episode of a locked webhook that is failing while its owner chooses automatic recovery."""
        health = WebhookHealth.objects.using(self.db).filter(pk=webhook.pk).first()
        if health is None or health.failing_since is None or health.missed_from is None:
            return
        failed_at = health.last_given_up_at or health.failing_since
        episode = Episode.of(webhook.pk, at=failed_at, missed_from=health.missed_from)
        episode.began_at = health.given_up_since or health.failing_since
        self.bulk_create([episode], ignore_conflicts=True)


class Episode(BaseModel):
    """The automatic recovery of a webhook. The row ends with it.

    Emission, claiming and recording never access this row. Transactions lock it after the rows of the webhook and of
    its health.
    """

    webhook = models.OneToOneField(
        Webhook,
        verbose_name=_("webhook"),
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="episode",
        db_constraint=False,  # a fold must not wait for a claim
    )
    began_at = models.DateTimeField(_("began"), help_text=_("When the first delivery was given up."))
    missed_from = models.DateTimeField(_("missed from"), help_text=_("Creation time of the oldest missed event."))
    failed_at = models.DateTimeField(_("last failure"), help_text=_("When the last delivery was given up."))
    succeeded_at = models.DateTimeField(
        _("first success"), null=True, help_text=_("When the first delivery after that succeeded.")
    )
    attempts = models.PositiveSmallIntegerField(
        _("recovery attempts"), default=0, help_text=_("Recovery attempts since the last success.")
    )
    # Not a foreign key, which would cost each deletion of deliveries a query.
    last_attempt = models.CharField(_("last recovery attempt"), max_length=40, blank=True)
    recovered = models.PositiveSmallIntegerField(
        _("recovered"), default=0, help_text=_("Recovery attempts that succeeded.")
    )
    next_step_at = models.DateTimeField(_("next step"), default=now)

    objects = EpisodeQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("episode")
        verbose_name_plural = _("episodes")
        default_permissions = ()
        indexes = (models.Index(fields=("next_step_at",), name="webhooks_episode_next_step"),)

    def __str__(self) -> str:
        return f"{self.webhook_id} ({self.began_at})"

    @classmethod
    def of(cls, webhook_id: str, *, at: datetime, missed_from: datetime) -> Self:
        """Return a new episode that began with a failure at this time."""
        return cls(webhook_id=webhook_id, began_at=at, missed_from=missed_from, failed_at=at, next_step_at=at)

    @property
    def attempt_due_at(self) -> datetime | None:
        """The time of the next recovery attempt; None after a success, when a replay follows instead."""
        due_at = self.failed_at + delay_after(self.attempts)
        return None if self.succeeded_at is not None else max(due_at, self.next_step_at)

    def note_missed(self, at: datetime, missed_from: datetime) -> None:
        """Record events that were given up or cancelled. Recovery attempts begin again after a success."""
        if self.succeeded_at is not None:
            self.succeeded_at, self.attempts = None, 0
        self.failed_at = max(self.failed_at, at)
        self.missed_from = min(self.missed_from, missed_from)
        self.next_step_at = at

    def note_success(self, at: datetime) -> bool:
        """Record a success. Return True for the first one after a failure."""
        if self.succeeded_at is not None:
            return False
        self.succeeded_at = self.next_step_at = at
        return True


def is_refusing(webhook: Webhook, now: datetime) -> bool:
    """Return True while the receiver fails, as far as results are folded."""
    health = WebhookHealth.objects.using(webhook.alias).failing(now).filter(pk=webhook.pk)
    return health.exists() or Episode.objects.using(webhook.alias).filter(pk=webhook.pk, succeeded_at=None).exists()
