"""What the app tells its host, as Django signals.

All are sent with ``send_robust`` once the fact is committed: a signal handler that fails is logged and changes nothing.
"""

from __future__ import annotations

from django.dispatch import Signal

event_emitted = Signal()
"""An event was committed. ``event``, ``deliveries`` (how many)."""

deliveries_created = Signal()
"""Deliveries are due and committed; the worker may be woken. No arguments."""

attempt_made = Signal()
"""An attempt ended. ``attempt`` (with a DeliveryAttempt's values), ``delivery_id``, ``webhook_id``, ``event_id``."""

delivery_succeeded = Signal()
"""A receiver answered 200. ``delivery_id``, ``webhook_id``, ``event_id``."""

delivery_given_up = Signal()
"""The last attempt failed. ``delivery_id``, ``webhook_id``, ``event_id``, ``attempt``."""

webhook_verified = Signal()
"""A handshake passed. ``webhook_id``."""

webhook_disabled = Signal()
"""A webhook stopped receiving: disabled by a person, or failed its handshake. ``webhook_id``, ``reason``."""

webhook_paused = Signal()
"""What is queued for a webhook is held from now on. ``webhook_id``."""

webhook_resumed = Signal()
"""What was held for a webhook is sent from now on. ``webhook_id``."""
