"""Sentences about the health of a webhook: what its lost deliveries have in common."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.standing import Health, Standing
from webhooks_app.pages.health import as_text, sentences

from ..support.rows import emit_one, end_deliveries, make_webhook

pytestmark = pytest.mark.django_db


@pytest.fixture
def webhook(alice: Any) -> Webhook:
    return make_webhook(alice)


def give_up(webhook: Webhook, result: str, status: int | None = None, *, is_masked: bool = False) -> None:
    delivery = emit_one(webhook.owner).deliveries.get()
    DeliveryAttempt.objects.create(
        delivery=delivery, number=1, started_at=timezone.now(), result=result, response_status=status, url=webhook.url
    )
    ended: Any = {"attempt_count": 1, "last_result": result, "is_masked": is_masked, "finished_at": timezone.now()}
    end_deliveries(Delivery.objects.filter(pk=delivery.pk), state="given_up", **ended)


def said(webhook: Webhook) -> str:
    return " ".join(as_text(each) for each in sentences(webhook, Health(standing=Standing.PARTLY_FAILING)))


def test_the_common_cause_and_type_of_lost_deliveries_are_named(webhook: Webhook) -> None:
    for _ in range(3):
        give_up(webhook, "http_status", 500)

    assert said(webhook) == (
        "The latest of them are all of the type ppt.generation.failed, and all failed with: status 500."
    )


def test_different_causes_are_not_named(webhook: Webhook) -> None:
    give_up(webhook, "http_status", 500)
    give_up(webhook, "http_status", 404)

    assert "failed with" not in said(webhook)


def test_a_single_lost_delivery_has_nothing_in_common(webhook: Webhook) -> None:
    give_up(webhook, "http_status", 500)

    assert said(webhook) == ""


def test_a_cause_that_the_owner_may_not_know_is_masked(webhook: Webhook) -> None:
    for _ in range(2):
        give_up(webhook, "connection_error", is_masked=True)

    assert "all failed with: URL not reached." in said(webhook)
    assert "connection error" not in said(webhook)
