"""The facts about an attempt that the owner of the webhook may see, over the API and in the console.

Users who manage the webhooks of all owners may see everything.

An account chooses the URLs of its webhooks. Details about an unverified URL would reveal which hosts, ports and names
exist in the network of the workers.
"""

from __future__ import annotations

from copy import copy

from django.db.models import Exists, OuterRef, Q, QuerySet

from ..models import Delivery, DeliveryAttempt, Webhook
from ..models.audit import Action
from ..reasons import ReasonText
from .outcome import Result

UNREACHABLE = "unreachable"
"""The result shown in place of ``UNREACHED``. It is never stored."""

UNREACHABLE_MESSAGE = ReasonText("unreachable")
TLS_FAILED = ReasonText("tls_failed")

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
    return delivery.last_result in (*UNREACHED, UNREACHABLE) and _is_undisclosed(delivery)


def attempt_for_owner(attempt: DeliveryAttempt) -> DeliveryAttempt:
    """Return the attempt, or an unsaved copy without the facts that are hidden from the owner."""
    shown = copy(attempt)
    if hides_cause(attempt):
        shown.result, shown.message, shown.duration_ms = UNREACHABLE, UNREACHABLE_MESSAGE, None
        shown.peer, shown.timings, shown.response_body, shown.timestamp = "", {}, "", None
    if attempt.number > 1 and hides_times(attempt.delivery):
        shown.started_at = None  # type: ignore[assignment] # a retry starts at a fixed time after the previous attempt
    return shown


def delivery_for_owner(delivery: Delivery) -> Delivery:
    """Return the delivery, or an unsaved copy without the facts that are hidden from the owner."""
    if not hides_times(delivery):
        return delivery
    shown = copy(delivery)
    shown.last_result, shown.finished_at = UNREACHABLE, None
    return shown


def with_result_for_owner(deliveries: QuerySet[Delivery], result: str) -> QuerySet[Delivery]:
    """Return the deliveries whose last attempt has this result, as shown to the owner."""
    if result == UNREACHABLE:
        return deliveries.filter(with_hidden_result())
    found = deliveries.filter(last_result=result)
    return found.exclude(with_hidden_result()) if result in UNREACHED else found


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
