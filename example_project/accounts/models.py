"""Subscriptions of accounts."""

from __future__ import annotations

import logging
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from . import signals

logger = logging.getLogger("example_project")


def public_id(user: Any) -> str:
    """Return the account's identifier in the API and in events."""
    return f"user_{user.pk}"


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    @transaction.atomic
    def subscribe(self, user: Any, plan: str) -> Subscription:
        """Subscribe an account. Raises django.db.IntegrityError if it is already subscribed."""
        subscription = Subscription(user=user, plan=plan)
        subscription.save(force_insert=True)
        logger.info("%s is subscribed to %s.", public_id(user), plan)
        signals.user_subscribed.send(Subscription, subscription=subscription)
        return subscription


class Subscription(models.Model):
    class Plan(models.TextChoices):
        BASIC = "basic"
        PRO = "pro"
        TEAM = "team"

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="subscription")
    plan = models.CharField(max_length=20, choices=Plan.choices)
    created_at = models.DateTimeField(default=timezone.now)

    objects = SubscriptionQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{public_id(self.user)} ({self.plan})"

    @transaction.atomic
    def end(self) -> bool:
        """End the subscription. Return False if it has already ended."""
        if not Subscription.objects.filter(pk=self.pk).delete()[0]:
            return False
        logger.info("%s is unsubscribed from %s.", public_id(self.user), self.plan)
        signals.user_unsubscribed.send(Subscription, subscription=self)
        return True
