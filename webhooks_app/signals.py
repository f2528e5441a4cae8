"""Django signals that the app sends to the host. The host's own signals become events by ``emission.emit_on``.

All but one are sent with ``send_robust`` after the commit: an exception in a signal handler is logged and has no other
effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.apps import apps
from django.db import transaction
from django.dispatch import Signal

__all__ = [
    "attempt_made",
    "deliveries_created",
    "delivery_given_up",
    "delivery_succeeded",
    "event_emitted",
    "webhook_being_disabled",
    "webhook_disabled",
    "webhook_failing",
    "webhook_paused",
    "webhook_recovered",
    "webhook_resumed",
    "webhook_url_refused",
    "webhook_verified",
]

event_emitted = Signal()
"""An event was committed. ``event``, ``deliveries`` (number of deliveries)."""

deliveries_created = Signal()
"""Deliveries are due and committed, and workers can be woken. ``webhook_ids``, empty if they are unknown."""

attempt_made = Signal(use_caching=True)
"""An attempt ended. ``attempt`` (with a DeliveryAttempt's values), ``delivery_id``, ``webhook_id``, ``event_id``."""

delivery_succeeded = Signal(use_caching=True)
"""A receiver answered 200, or another accepted 2xx. ``delivery_id``, ``webhook_id``, ``event_id``."""

delivery_given_up = Signal(use_caching=True)
"""The last attempt failed. ``delivery_id``, ``webhook_id``, ``event_id``, ``attempt``."""

webhook_verified = Signal()
"""A handshake passed, of a webhook or of its new URL. ``webhook_id``."""

webhook_url_refused = Signal()
"""The handshake of an active webhook's new URL failed, and the webhook keeps the URL that it has. ``webhook_id``,
``url`` (the new one), ``reason``, ``reason_code``."""

webhook_failing = Signal()
"""A webhook has been failing for some time, or will be disabled for it (``is_warning``). ``webhook_id``,
``failing_since``, ``failed_requests`` and ``given_up`` (numbers of requests and deliveries), ``waiting`` (number of
events, up to 10,000), ``result`` and ``status_code`` of most failed requests ("" and None if unknown), ``disables_at``
(None if it will not be disabled)."""

webhook_recovered = Signal()
"""A delivery to a webhook succeeded after its failure had been announced. ``webhook_id``, ``failed_since``."""

webhook_being_disabled = Signal()
"""A webhook is being disabled in the current transaction; an exception rolls it back. ``webhook``."""

webhook_disabled = Signal()
"""A webhook stopped receiving: a person disabled it, it failed for too long, or its handshake failed. ``webhook_id``,
``reason``, ``reason_code`` ("text" if a person wrote it)."""

webhook_paused = Signal()
"""A webhook was paused, and its deliveries are held. ``webhook_id``."""

webhook_resumed = Signal()
"""A webhook was resumed, and its held deliveries are sent. ``webhook_id``."""


def announce_deliveries(using: str, webhook_ids: Sequence[str] = ()) -> None:
    """Send ``deliveries_created`` when the current transaction commits."""
    sender = apps.get_model("webhooks_app", "Delivery")
    transaction.on_commit(lambda: deliveries_created.send_robust(sender, webhook_ids=webhook_ids), using=using)
