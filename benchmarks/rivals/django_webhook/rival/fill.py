"""``python -m rival.fill URL EVENTS``: register 20 webhooks, and save rows, each of which is sent to 10 of them."""

from __future__ import annotations

import sys

import django

django.setup()

from django_webhook.models import Webhook, WebhookEvent, WebhookSecret, WebhookTopic, states  # noqa: E402

from rival.models import FirstOrder, SecondOrder  # noqa: E402

WEBHOOKS = 20
MODELS = (FirstOrder, SecondOrder)


def fill(url: str, events: int) -> None:
    for index in range(WEBHOOKS):
        webhook = Webhook.objects.create(url=f"{url}/{index}")
        WebhookSecret.objects.create(webhook=webhook, token="a secret for benchmarks")
        label = MODELS[index * len(MODELS) // WEBHOOKS]._meta.label
        webhook.topics.add(WebhookTopic.objects.get(name=f"{label}/create"))
    for index in range(events):
        MODELS[index % len(MODELS)].objects.create(text="x" * 780)


def succeeded() -> int:
    return WebhookEvent.objects.filter(status=states.SUCCESS).count()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fill(sys.argv[1], int(sys.argv[2]))
    else:
        print(succeeded())
