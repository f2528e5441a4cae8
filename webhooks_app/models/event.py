"""An event, with the exact bytes that every subscriber receives."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..exceptions import WebhookStateError
from ..protocol.ids import first_id_at
from ..reasons import ReasonText
from .base import BaseModel, BaseQuerySet
from .fields import IdField, OwnerField, PartialIndex
from .order import MAX_ORDERING_KEY_LENGTH


class EventQuerySet(BaseQuerySet["Event"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(owner=owner)

    def queued_before(self, moment: datetime) -> Self:
        return self.filter(pk__lt=first_id_at("evt", moment))

    def with_body(self) -> Self:
        return self.exclude(body="")


class Event(BaseModel):
    id = IdField(prefix="evt")
    type = models.CharField(_("type"), max_length=100, editable=False)
    owner = OwnerField(
        verbose_name=_("owner"),
        null=True,
        blank=True,
        editable=False,
        on_delete=models.DO_NOTHING,  # maintenance.forgetting deletes it before its owner
        related_name="webhook_events",
        db_index=False,
    )
    body = models.TextField(_("body"), editable=False)
    ordering_key = models.CharField(  # noqa: DJ001 - null costs nothing
        _("ordering key"), max_length=MAX_ORDERING_KEY_LENGTH, null=True, editable=False
    )
    is_test = models.BooleanField(_("test"), default=False, editable=False)
    created_at = models.DateTimeField(_("created"), editable=False)

    objects = EventQuerySet.as_manager()  # type: ignore[misc]

    unsaved_references: Sequence[str] = ()
    """The references of a new event, inserted with it."""

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("owner", "-id"), name="webhooks_event_owner"),
            models.Index(fields=("type", "-id"), name="webhooks_event_type"),
            # Lists the remaining bodies for retention, independent of the number of deleted ones.
            PartialIndex(
                fields=("type", "id"), only=~models.Q(body=""), otherwise=("created_at",), name="webhooks_event_body"
            ),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.type})"

    @property
    def has_body(self) -> bool:
        """Whether the sent body is still stored."""
        return bool(self.body)

    @property
    def data(self) -> dict[str, Any]:
        """The data of the event. Raise WebhookStateError after its retention."""
        self.require_body()
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data

    def require_body(self) -> None:
        """Raise WebhookStateError if the body has been deleted."""
        if not self.has_body:
            raise WebhookStateError(ReasonText("body_not_kept", id=self.id))
