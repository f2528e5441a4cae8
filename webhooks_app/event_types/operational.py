"""What this app tells of its own deliveries, to the platform's webhooks alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import EventData, EventType, UtcTime

WebhookId = Annotated[str, Field(pattern=r"^wh_[0-9A-Za-z]+$", description="The webhook that it is about.")]
Url = Annotated[str, Field(description="Where that webhook is sent to.")]
OwnerId = Annotated[
    str | None,
    Field(description="Primary key of the account that it belongs to; left out for the platform's own."),
]
FailingSince = Annotated[UtcTime, Field(description="When the first delivery was given up after the last success.")]


class WebhookFailingData(EventData):
    """A webhook to which nothing has been delivered for so long that it is worth a warning."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    failing_since: FailingSince
    given_up: int = Field(ge=1, description="How many deliveries were given up since then.")
    disables_at: UtcTime | None = Field(
        default=None, description="When it is disabled unless a delivery succeeds; left out where it never is."
    )


class WebhookRecoveredData(EventData):
    """A webhook that was failing and to which something was delivered again."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    failed_since: UtcTime = Field(description="Since when it had been failing.")
    recovered_at: UtcTime = Field(description="When the success was recorded.")


class WebhookDisabledData(EventData):
    """A webhook that nothing is sent to any more until somebody enables it."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    reason: str = Field(description="Why, for a person to read.")
    disabled_at: UtcTime = Field(description="When it was disabled.")


class DeliveryGivenUpData(EventData):
    """A delivery whose last attempt failed."""

    delivery_id: str = Field(pattern=r"^dlv_[0-9A-Za-z]+$", description="The delivery.")
    event_id: str = Field(pattern=r"^evt_[0-9A-Za-z]+$", description="The event that was not delivered.")
    event_type: str = Field(description="The type of that event.")
    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    attempts: int = Field(ge=0, description="How many attempts were made.")
    last_result: str = Field(description="What came of the last one, such as timeout or http_status.")


_GROUP = "Operations"
_WEBHOOK = {
    "webhook_id": "wh_019c138f9ac012d1c9a64a2e0f3b7d55",
    "url": "https://receiver.example.com/hooks",
    "owner": "1024",
}

WEBHOOK_FAILING = EventType(
    name="webhook.failing",
    group=_GROUP,
    description="A webhook fails and is about to be disabled",
    data_model=WebhookFailingData,
    example={
        **_WEBHOOK,
        "failing_since": "2026-01-29T00:00:00.123456Z",
        "given_up": 57,
        "disables_at": "2026-02-03T00:00:00.123456Z",
    },
    operational=True,
)
WEBHOOK_RECOVERED = EventType(
    name="webhook.recovered",
    group=_GROUP,
    description="A webhook that was told to be failing works again",
    data_model=WebhookRecoveredData,
    example={
        **_WEBHOOK,
        "failed_since": "2026-01-29T00:00:00.123456Z",
        "recovered_at": "2026-01-31T12:00:00.123456Z",
    },
    operational=True,
)
WEBHOOK_DISABLED = EventType(
    name="webhook.disabled",
    group=_GROUP,
    description="A webhook was disabled",
    data_model=WebhookDisabledData,
    example={
        **_WEBHOOK,
        "reason": "Every delivery was given up for 5 days: 57 since 2026-01-29 00:00 UTC.",
        "disabled_at": "2026-02-03T00:00:41.123456Z",
    },
    operational=True,
)
DELIVERY_GIVEN_UP = EventType(
    name="delivery.given_up",
    group=_GROUP,
    description="The last attempt of a delivery failed",
    data_model=DeliveryGivenUpData,
    example={
        **_WEBHOOK,
        "delivery_id": "dlv_019c138f9ac1f3a4c9a64a2e0f3b7d55",
        "event_id": "evt_019c138f9ac012d1c9a64a2e0f3b7d55",
        "event_type": "ppt.generation.completed",
        "attempts": 4,
        "last_result": "timeout",
    },
    operational=True,
)

OPERATIONAL_EVENT_TYPES = (WEBHOOK_FAILING, WEBHOOK_RECOVERED, WEBHOOK_DISABLED, DELIVERY_GIVEN_UP)
