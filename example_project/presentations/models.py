"""Presentations and their states."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.core.files.base import ContentFile
from django.db import models, transaction
from django.dispatch import Signal
from django.utils import timezone

from webhooks_app.protocol.ids import new_id

from . import signals
from .deck import Deck

logger = logging.getLogger("example_project")

CREDITS_A_PAGE = 1


class PresentationStateError(Exception):
    """The operation is not allowed in the presentation's current state."""


class WorkEndedError(Exception):
    """The work on a presentation is obsolete: it was cancelled or given up as lost."""


def new_presentation_id() -> str:
    return new_id("ppt")


class PresentationQuerySet(models.QuerySet["Presentation"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(owner=owner)

    def waiting_since(self, moment: datetime) -> Self:
        return self.filter(status__in=Presentation.WAITING, requested_at__lte=moment)

    def in_work_since(self, moment: datetime) -> Self:
        return self.filter(status__in=Presentation.IN_WORK, started_at__lte=moment)


class Presentation(models.Model):
    class Status(models.TextChoices):
        QUEUED = "queued"
        GENERATING = "generating"
        COMPLETED = "completed"
        FAILED = "failed"
        CANCELLED = "cancelled"
        EDIT_QUEUED = "edit_queued"
        EDITING = "editing"

    WAITING = (Status.QUEUED, Status.EDIT_QUEUED)
    IN_WORK = (Status.GENERATING, Status.EDITING)

    id = models.CharField(primary_key=True, max_length=40, default=new_presentation_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="presentations")
    title = models.CharField(max_length=200)
    outline = models.TextField()
    edited_title = models.CharField(max_length=200, blank=True, help_text="Used by a queued or running edit.")
    edited_outline = models.TextField(blank=True)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.QUEUED)
    error = models.TextField(blank=True)
    file = models.FileField(upload_to="presentations", blank=True)
    pages = models.PositiveIntegerField(null=True)
    cost = models.PositiveIntegerField(null=True)
    generation_seconds = models.FloatField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    requested_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)

    objects = PresentationQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.id} ({self.status})"

    @property
    def is_edit(self) -> bool:
        return self.status in (self.Status.EDIT_QUEUED, self.Status.EDITING)

    @property
    def state(self) -> str:
        """The status in lower case, for use in a sentence."""
        return self.get_status_display().lower()

    @property
    def download_url(self) -> str:
        return f"{settings.BASE_URL}/v1/ppt/{self.id}/download"

    def request_edit(self, *, title: str, outline: str) -> None:
        """Queue an edit. The presentation stays unchanged until the edit is finished. Raises PresentationStateError."""
        edit = {"edited_title": title, "edited_outline": outline, "requested_at": timezone.now()}
        if not self._move([self.Status.COMPLETED], self.Status.EDIT_QUEUED, **edit):
            self._refuse("Only a completed presentation can be edited")

    @transaction.atomic
    def cancel(self) -> None:
        """Cancel an unfinished generation. Raises PresentationStateError."""
        if not self._move([self.Status.QUEUED, self.Status.GENERATING], self.Status.CANCELLED):
            self._refuse("Only a generation that is queued or in work can be cancelled")
        self._announce(signals.generation_cancelled)

    @transaction.atomic
    def begin(self) -> bool:
        """Claim the queued work. Return False if there is none, or if another worker claimed it."""
        started_at = timezone.now()
        if self._move([self.Status.QUEUED], self.Status.GENERATING, started_at=started_at):
            self._announce(signals.generation_started)
            return True
        if self._move([self.Status.EDIT_QUEUED], self.Status.EDITING, started_at=started_at):
            self._announce(signals.edit_started)
            return True
        return False

    def require_work(self) -> None:
        """Raise WorkEndedError if the work is obsolete."""
        if not self._in_work().exists():
            raise WorkEndedError(self.id)

    def complete(self, deck: Deck, *, seconds: float) -> None:
        """Store the finished presentation. Raises WorkEndedError, and stores nothing, if the work is obsolete."""
        storage, former = self.file.storage, self.file.name
        name = storage.save(f"presentations/{self.id}.pptx", ContentFile(deck.content))
        made = {"file": name, "pages": deck.pages, "cost": CREDITS_A_PAGE * deck.pages, "error": ""}
        try:
            with transaction.atomic():
                if self.is_edit:
                    made |= {"title": self.edited_title, "outline": self.edited_outline}
                    self._finish(self.Status.COMPLETED, signals.edit_completed, **made)
                else:
                    made["generation_seconds"] = round(seconds, 3)
                    self._finish(self.Status.COMPLETED, signals.generation_completed, **made)
        except BaseException:
            storage.delete(name)
            raise
        if former:
            storage.delete(former)

    @transaction.atomic
    def fail(self, error: str) -> None:
        """Record the failure of the work. The owner sees ``error``. Raises WorkEndedError if the work is obsolete."""
        if self.is_edit:  # The presentation itself is unchanged.
            self._finish(self.Status.COMPLETED, signals.edit_failed, error=error)
        else:
            self._finish(self.Status.FAILED, signals.generation_failed, error=error)

    def _finish(self, status: Status, signal: Signal, **changes: Any) -> None:
        if not self._in_work().update(status=status, **changes):
            raise WorkEndedError(self.id)
        self._take_over(status=status, **changes)
        self._announce(signal)

    def _in_work(self) -> PresentationQuerySet:
        # The start time distinguishes this work from later work of the same kind.
        return Presentation.objects.filter(pk=self.pk, status=self.status, started_at=self.started_at)

    def _move(self, sources: list[Status], target: Status, **changes: Any) -> bool:
        """Change the state if it is one of ``sources``. Of concurrent changes, only one succeeds."""
        moved = Presentation.objects.filter(pk=self.pk, status__in=sources).update(status=target, **changes)
        if moved:
            self._take_over(status=target, **changes)
        return bool(moved)

    def _take_over(self, **changes: Any) -> None:
        for name, value in changes.items():
            setattr(self, name, value)

    def _refuse(self, rule: str) -> None:
        self.refresh_from_db(fields=["status"])
        raise PresentationStateError(f"{rule}; this one is {self.state}.")

    def _announce(self, signal: Signal) -> None:
        logger.info("%s is %s.", self.id, self.state)
        signal.send(Presentation, presentation=self)
