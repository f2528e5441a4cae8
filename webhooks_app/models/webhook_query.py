"""The QuerySet of webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from django.db import transaction

from .base import BaseQuerySet
from .signing_key import SigningKey

if TYPE_CHECKING:
    from .webhook import Webhook


class WebhookQuerySet(BaseQuerySet["Webhook"]):
    def bulk_create(self, objs: Iterable[Webhook], *args: Any, **kwargs: Any) -> list[Webhook]:
        """Create webhooks with their new keys."""
        with transaction.atomic(using=self.db):
            webhooks = super().bulk_create(objs, *args, **kwargs)
            SigningKey.objects.using(self.db).bulk_create(
                [key for webhook in webhooks for key in webhook.take_new_keys()], batch_size=500
            )
        return webhooks

    def existing(self) -> Self:
        return self.filter(deleted_at=None)

    def owned_by(self, owner: Any) -> Self:
        """Return the webhooks that belong to this owner, without the platform's."""
        return self.filter(owner=owner)

    def active(self) -> Self:
        return self.existing().filter(status=self.model.Status.ACTIVE)
