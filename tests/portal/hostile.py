"""Rows of a customer whose every text tries to run a script, as long as it may be."""

from __future__ import annotations

import json

from django.contrib.auth import get_user_model

from webhooks_app.models import ApiKey, Delivery, DeliveryAttempt, Event, Webhook, WebhookHealth

from .conftest import Customer

SCRIPT = "\"'><script>document.title='hostile'</script><img src=x onerror=alert(1)>{{ 7|add:7 }}"


def make_hostile(customer: Customer) -> None:
    """Replace every text of a customer's rows by a hostile one."""
    webhook = Webhook.objects.filter(pk=customer.webhook.pk)
    webhook.update(url=f"https://x.example/{SCRIPT}{'y' * 300}", description=SCRIPT, status_reason=SCRIPT)
    webhook.update(filter={"error": SCRIPT}, encrypted_headers=[[SCRIPT, "x"]], event_types=[SCRIPT, "file.deleted"])
    WebhookHealth.objects.update_or_create(
        webhook=customer.webhook, defaults={"failing_since": customer.webhook.created_at}
    )
    Event.objects.filter(pk=customer.event.pk).update(body=json.dumps({"data": {"error": SCRIPT}}))
    Delivery.objects.filter(pk=customer.delivery.pk).update(state_reason=SCRIPT[:100])
    DeliveryAttempt.objects.filter(delivery=customer.delivery).update(
        url=f"https://x.example/{SCRIPT}",
        message=SCRIPT,
        timestamp=1_700_000_000,
        header_names=SCRIPT.replace(",", ""),
        response_headers=[[SCRIPT, SCRIPT]],
        response_body=SCRIPT * 20,
        retry_after=SCRIPT[:100],
    )
    get_user_model().objects.filter(pk=customer.user.pk).update(username=SCRIPT)
    ApiKey.objects.filter(pk=customer.key.pk).update(name=SCRIPT[:100])
    sample = {"event_id": customer.event.pk, "type": SCRIPT, "created": "2026-01-01T00:00:00Z", "state": SCRIPT}
    customer.replay.sample, customer.replay.state_reason = [sample], SCRIPT
    customer.replay.save()
