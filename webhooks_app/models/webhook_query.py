"""Which webhooks: of whom, in which state, and which an event is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models.functions import Cast, Concat, StrIndex

from .sql import UtcNow

if TYPE_CHECKING:
    from .webhook import Webhook  # noqa: F401 - named below


class WebhookQuerySet(models.QuerySet["Webhook"]):
    def existing(self) -> Self:
        return self.filter(deleted_at=None)

    def owned_by(self, owner: Any) -> Self:
        """Return the webhooks that this account may see: its own, and never the platform's."""
        return self.filter(owner=owner)

    def active(self) -> Self:
        return self.existing().filter(status=self.model.Status.ACTIVE)

    def of_platform(self) -> Self:
        return self.filter(owner=None)

    def forget_ended_overlaps(self) -> int:
        """Drop the secrets that sign nothing any more; return how many."""
        ended = self.filter(previous_secret_until__lte=UtcNow())
        return ended.update(encrypted_previous_secret="", previous_secret_until=None)

    def listening_to(self, event_type: models.Value, owner: models.Value | None) -> Self:
        """Return the active webhooks that get an event of this owner: the owner's own and the platform's."""
        audience = models.Q(owner=None) if owner is None else models.Q(owner=None) | models.Q(owner=owner)
        return self.active().filter(audience).subscribed_to(event_type)

    def subscribed_to(self, event_type: str | models.Value) -> Self:
        name = models.Value(event_type) if isinstance(event_type, str) else event_type
        # A JSON list is searched as text, because SQLite has no `contains` for JSON.
        quoted = Concat(models.Value('"'), name, models.Value('"'), output_field=models.TextField())
        position = StrIndex(Cast("event_types", models.TextField()), quoted)
        return self.alias(position=position).filter(position__gt=0)
