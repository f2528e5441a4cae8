"""An owner with rows in the primary, for one call. Each call has its own, so that none depends on another."""

from datetime import timedelta
from functools import cached_property
from itertools import count

from accounts import new_owner
from django.utils import timezone

from webhooks_app import emit
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Problem, QueueEntry
from webhooks_app.operations import replays
from webhooks_app.operations.actors import PROJECT
from webhooks_app.testing import Webhooks

EVENT_TYPE = "order.paid"
DATA = {"order": "ord_1", "amount": 4200}
URL = "https://receiver.example.com/"
numbers = count(1)


class Subject:
    def __init__(self, owner=None):
        self.kit = Webhooks()
        self.name = f"owner-{next(numbers)}"
        self.owner = new_owner(self.name) if owner is None else owner

    @cached_property
    def webhook(self):
        return self.kit.register(self.owner, EVENT_TYPE)

    @property
    def paused(self):
        self.webhook.pause()
        return self.webhook

    @cached_property
    def entry(self):
        """The audit entry of a pause."""
        return AuditEntry.objects.filter(subject=self.paused.pk).latest("pk")

    @property
    def unverified(self):
        webhook = self.webhook
        webhook.await_verification()
        return webhook

    @property
    def disabled(self):
        self.webhook.disable("By hand.")
        return self.webhook

    @property
    def rotated(self):
        self.webhook.rotate_secret()
        return self.webhook

    @property
    def prepared(self):
        self.webhook.rotate_secret(activate_at=timezone.now() + timedelta(days=1))
        return self.webhook

    @cached_property
    def event(self):
        _ = self.webhook
        return emit(EVENT_TYPE, DATA, owner=self.owner)

    @cached_property
    def delivery(self):
        """A delivery after its last attempt."""
        _ = self.event
        self.kit.deliver()
        return Delivery.objects.get(event=self.event, webhook=self.webhook)

    @property
    def waiting(self):
        """A delivery that waits for its next attempt."""
        delivery = self.event.deliveries.get()
        QueueEntry.objects.filter(pk=delivery.pk).update(due_at=timezone.now() + timedelta(hours=1))
        return delivery

    @cached_property
    def replay(self):
        """A replay of the delivery, ready to start."""
        _ = self.delivery
        return replays.plan(self.webhook, actor=PROJECT, states=["succeeded"])

    @property
    def running(self):
        self.replay.start()
        return self.replay

    @property
    def stopped(self):
        self.running.pause()
        return self.replay

    @cached_property
    def problem(self):
        """A problem with a missed event."""
        Delivery.objects.filter(pk=self.delivery.pk).update(state="given_up")
        now = timezone.now()
        seen = {"count": 1, "first_seen_at": now, "last_seen_at": now, "opened_at": now, "missed_from": now}
        return Problem.objects.create(webhook=self.webhook, result="timeout", code=0, **seen)

    @property
    def ignored(self):
        self.problem.ignore()
        return self.problem

    @cached_property
    def key(self):
        return ApiKey.objects.make(owner=self.owner)

    @cached_property
    def service_key(self):
        return ApiKey.objects.make(owner=None, scopes=["events:emit"])
