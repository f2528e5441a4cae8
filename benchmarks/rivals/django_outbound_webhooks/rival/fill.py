"""``python -m rival.fill URL EVENTS``: register 20 endpoints, and fire events, each for 10 of them."""

from __future__ import annotations

import base64
import sys

import django

django.setup()

from django.db import transaction  # noqa: E402
from django_domain_events import fire  # noqa: E402
from django_domain_events.models.delivery_record import DeliveryRecord  # noqa: E402
from django_domain_events.types.delivery_status import DeliveryStatus  # noqa: E402
from django_outbound_webhooks import register_endpoint  # noqa: E402

from rival.events import FirstOrder, SecondOrder  # noqa: E402

WEBHOOKS = 20
EVENTS = (FirstOrder, SecondOrder)


def fill(url: str, events: int) -> None:
    for index in range(WEBHOOKS):
        register_endpoint(
            name=f"endpoint {index}",
            url=f"{url}/{index}",
            secret="whsec_" + base64.b64encode(b"a secret for the benchmarks").decode(),
            event_names=[f"rival.{EVENTS[index * len(EVENTS) // WEBHOOKS].__name__}"],
        )
    for index in range(events):
        with transaction.atomic():
            fire(EVENTS[index % len(EVENTS)](text="x" * 850))


def succeeded() -> int:
    return DeliveryRecord.objects.filter(status=DeliveryStatus.SUCCEEDED).count()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fill(sys.argv[1], int(sys.argv[2]))
    else:
        print(succeeded())
