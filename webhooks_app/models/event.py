"""One occurrence, with the exact bytes that every subscriber gets."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Self

from django.conf import settings as django_settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from .fields import IdField


class EventQuerySet(models.QuerySet["Event"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(owner=owner)

    def older_than(self, moment: datetime) -> Self:
        return self.filter(created_at__lt=moment)


class Event(models.Model):
    id = IdField(prefix="evt")
    type = models.CharField(_("type"), max_length=100, editable=False)
    owner = models.ForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("owner"),
        null=True,
        blank=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="webhook_events",
        db_index=False,
    )
    body = models.TextField(_("body"), editable=False)
    is_test = models.BooleanField(_("test"), default=False, editable=False)
    created_at = models.DateTimeField(_("created"), editable=False)

    objects = EventQuerySet.as_manager()

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("owner", "-id"), name="webhooks_event_owner"),
            models.Index(fields=("type", "-id"), name="webhooks_event_type"),
            models.Index(fields=("created_at",), name="webhooks_event_created"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.type})"

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data
