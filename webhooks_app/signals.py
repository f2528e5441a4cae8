"""What the app tells its host, as Django signals.

All but one are sent with ``send_robust`` once the fact is committed: a signal handler that fails is logged and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.apps import apps
from django.db import transaction
from django.dispatch import Signal

event_emitted = Signal()
"""An event was committed. ``event``, ``deliveries`` (how many)."""

deliveries_created = Signal()
"""Deliveries are due and committed; the worker may be woken. ``webhook_ids``, empty where they are not known."""

attempt_made = Signal()
"""An attempt ended. ``attempt`` (with a DeliveryAttempt's values), ``delivery_id``, ``webhook_id``, ``event_id``."""

delivery_succeeded = Signal()
"""A receiver answered 200. ``delivery_id``, ``webhook_id``, ``event_id``."""

delivery_given_up = Signal()
"""The last attempt failed. ``delivery_id``, ``webhook_id``, ``event_id``, ``attempt``."""

webhook_verified = Signal()
"""A handshake passed. ``webhook_id``."""

webhook_failing = Signal()
"""Nothing has been delivered to a webhook for a long time: its owner is warned. ``webhook_id``, ``failing_since``,
``given_up`` (how many deliveries), ``disables_at`` (None where it will not be disabled)."""

webhook_recovered = Signal()
"""Something was delivered again to a webhook whose owner was warned. ``webhook_id``, ``failed_since``."""

webhook_being_disabled = Signal()
"""A webhook is disabled in this transaction, which an error rolls back. ``webhook``."""

webhook_disabled = Signal()
"""A webhook stopped receiving: disabled by a person or for failing too long, or its handshake failed. ``webhook_id``,
``reason``."""

webhook_paused = Signal()
"""What is queued for a webhook is held from now on. ``webhook_id``."""

webhook_resumed = Signal()
"""What was held for a webhook is sent from now on. ``webhook_id``."""


def announce_deliveries(using: str, webhook_ids: Sequence[str] = ()) -> None:
    """Send ``deliveries_created`` when the current transaction commits."""
    sender = apps.get_model("webhooks_app", "Delivery")
    transaction.on_commit(lambda: deliveries_created.send_robust(sender, webhook_ids=webhook_ids), using=using)
