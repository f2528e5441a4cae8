"""Facts about unreachable URLs in the console. Users who do not manage all webhooks see the same as over the API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from ..delivery.disclosure import (
    attempt_for_owner,
    delivery_for_owner,
    hidden_entries,
    hides_status_time,
    with_result_for_owner,
)
from ..models import Delivery, DeliveryAttempt, Webhook
from ..pages.display import last_attempts
from ..pages.transcript import ShownAttempt, transcript
from .display import delivery_urls
from .owned import manages_all


def disclosed(request: HttpRequest, deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Return the deliveries as the user may see them."""
    if manages_all(request):
        return list(deliveries)
    return [delivery_for_owner(delivery) for delivery in deliveries]


def disclosed_attempts(request: HttpRequest, delivery: Delivery) -> list[DeliveryAttempt]:
    """Return the attempts of a delivery, oldest first, as the user may see them."""
    attempts = list(delivery.attempts.order_by("number"))
    for attempt in attempts:
        attempt.delivery = delivery
    return attempts if manages_all(request) else [attempt_for_owner(attempt) for attempt in attempts]


def disclosed_transcript(request: HttpRequest, delivery: Delivery, *, site: str) -> list[ShownAttempt]:
    """Return the attempts of a delivery for a page, with the body only for users who may view events."""
    shows_body = delivery.kind == Delivery.Kind.VERIFICATION or request.user.has_perm("webhooks_app.view_event")
    attempts = disclosed_attempts(request, delivery)
    return transcript(attempts, delivery, shows_body=shows_body, url=delivery_urls(site))


def disclosed_last_attempts(request: HttpRequest, deliveries: Sequence[Delivery]) -> dict[str, DeliveryAttempt]:
    """Return the last stored attempt of each delivery by ID, as the user may see it."""
    last = last_attempts(deliveries)
    return last if manages_all(request) else {pk: attempt_for_owner(attempt) for pk, attempt in last.items()}


def disclosed_entries(request: HttpRequest, entries: QuerySet[Any]) -> QuerySet[Any]:
    """Return the audit entries that the user may see."""
    return entries if manages_all(request) else entries.exclude(hidden_entries())


def with_result(request: HttpRequest, deliveries: QuerySet[Delivery], result: str) -> QuerySet[Delivery]:
    """Return the deliveries whose last attempt has this result, as the user may see it."""
    if manages_all(request):
        return deliveries.filter(last_result=result)
    return with_result_for_owner(deliveries, result)


def shows_status_time(request: HttpRequest, webhook: Webhook) -> bool:
    return manages_all(request) or not hides_status_time(webhook)
