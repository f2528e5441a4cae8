"""The facts about an attempt that the owner of the webhook may see. Staff may see everything.

An account chooses the URLs of its webhooks. Details about an unverified URL would reveal which hosts, ports and names
exist in the network of the workers.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from ..models import Delivery, DeliveryAttempt, Webhook
from ..models.audit import Action
from .outcome import Result

UNREACHABLE = "unreachable"
"""The result shown in place of ``UNREACHED``. It is never stored."""

UNREACHABLE_MESSAGE = (
    "The URL could not be reached. Check that its host name is in the public DNS, and that the receiver runs, answers "
    "in time and has a trusted certificate."
)
TLS_FAILED = "No trusted TLS connection could be made."

UNREACHED = frozenset(
    (Result.DNS_ERROR, Result.ADDRESS_REFUSED, Result.CONNECTION_ERROR, Result.TIMEOUT, Result.TLS_ERROR)
)
PROBES = (Delivery.Kind.TEST, Delivery.Kind.VERIFICATION)
"""Kinds that are sent to any URL chosen by an account. The owner sees the result and the status, but not the answer."""


def hides_cause(attempt: DeliveryAttempt) -> bool:
    """Return True if the owner may only see that the URL could not be reached."""
    if attempt.result not in UNREACHED:
        return False
    webhook = attempt.delivery.webhook
    return _is_undisclosed(attempt.delivery) or (attempt.delivery.kind in PROBES and attempt.url != webhook.url)


def hides_times(delivery: Delivery) -> bool:
    """Return True if the owner may not see when the last attempt ended."""
    return delivery.last_result in UNREACHED and _is_undisclosed(delivery)


def hides_status_time(webhook: Webhook) -> bool:
    """Return True if the owner may not see when the status of the webhook changed."""
    return webhook.status == Webhook.Status.FAILED and webhook.status_reason == UNREACHABLE_MESSAGE


def message_for_owner(result: str, message: str) -> str:
    """Return the message of an attempt whose cause is not hidden, without details of a certificate."""
    return TLS_FAILED if result == Result.TLS_ERROR else message


def reason_of_handshake(result: str, message: str) -> str:
    """Return the reason of a failed verification, as stored for the owner."""
    return UNREACHABLE_MESSAGE if result in UNREACHED else message


def with_hidden_result() -> Q:
    """Return the condition for deliveries whose last result is replaced by ``UNREACHABLE``."""
    attempts = DeliveryAttempt.objects.filter(delivery=OuterRef("pk")).exclude(url=OuterRef("webhook__url"))
    to_unverified = ~Q(webhook__status=Webhook.Status.ACTIVE) | Q(Exists(attempts))
    probe = Q(kind=Delivery.Kind.VERIFICATION) | Q(kind=Delivery.Kind.TEST) & to_unverified
    return Q(last_result__in=UNREACHED) & probe


def hidden_entries() -> Q:
    """Return the condition for audit entries whose time would reveal how long an unreachable URL took."""
    return Q(action=Action.VERIFICATION_FAILED, reason=UNREACHABLE_MESSAGE)


def _is_undisclosed(delivery: Delivery) -> bool:
    if delivery.kind == Delivery.Kind.TEST:
        return delivery.webhook.status != Webhook.Status.ACTIVE
    return delivery.kind == Delivery.Kind.VERIFICATION
