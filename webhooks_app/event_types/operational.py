"""This app's own event types: operational events and internal messages.

Operational events are about the app's own deliveries, for the platform's webhooks only. Internal messages cannot be
emitted or subscribed to, but are documented like event types.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from ..receiver.verification import RETRY_NOTICE_TYPE, VERIFICATION_TYPE
from .base import EventData, EventType, UtcTime

_GROUP = "Operations"
_WEBHOOK = {
    "webhook_id": "wh_019c138f9ac012d1c9a64a2e0f3b7d55",
    "url": "https://receiver.example.com/hooks",
    "owner": "1024",
}


class VerificationData(EventData):
    """The challenge that a receiver must return to confirm that it expects webhooks."""

    challenge: str = Field(description="Return it unchanged, in the field challenge of a JSON object.")


class RetryNoticeData(EventData):
    """An event that could not be delivered yet, and the time of its next retry."""

    original_event_id: str = Field(pattern=r"^evt_[0-9A-Za-z]+$", description="The event to be retried.")
    retry_count: int = Field(ge=1, description="Number of the next retry, from 1.")
    next_retry_at: UtcTime = Field(description="Time of that retry.")


VERIFICATION = EventType(
    name=VERIFICATION_TYPE,
    group="Internal",
    description="Verifies a newly registered URL; the body has neither id nor created.",
    data_model=VerificationData,
    example={"challenge": "Zb3CkX0oSKS0tnHnBv4Zv2Jq9C5m1iVhXoV6jXQm6nY"},
)

RETRY_NOTICE = EventType(
    name=RETRY_NOTICE_TYPE,
    group="Internal",
    description="A delivery failed and will be tried again.",
    data_model=RetryNoticeData,
    example={
        "original_event_id": "evt_019c138f9ac012d1c9a64a2e0f3b7d55",
        "retry_count": 1,
        "next_retry_at": "2026-01-31T12:00:01.123456Z",
    },
)

INTERNAL_EVENT_TYPES = (VERIFICATION, RETRY_NOTICE)
INTERNAL_NAMES = frozenset(event_type.name for event_type in INTERNAL_EVENT_TYPES)
"""The names of types that are sent without a subscription."""


def retry_notice_data(*, original_event_id: str, retry_count: int, next_retry_at: datetime) -> dict[str, Any]:
    """Return the data of a ``webhook.retry`` notice."""
    return RETRY_NOTICE.validate(
        {"original_event_id": original_event_id, "retry_count": retry_count, "next_retry_at": next_retry_at}
    )


WebhookId = Annotated[str, Field(pattern=r"^wh_[0-9A-Za-z]+$", description="The webhook concerned.")]
Url = Annotated[str, Field(description="URL of that webhook.")]
OwnerId = Annotated[
    str | None,
    Field(description="Primary key of the account that owns it; omitted for the platform's own."),
]
FailingSince = Annotated[UtcTime, Field(description="Time of the first delivery given up since the last success.")]


class WebhookFailingData(EventData):
    """A webhook that has been failing for some time."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    failing_since: FailingSince
    given_up: int = Field(ge=0, description="Number of deliveries given up since then.")
    failed_requests: int = Field(default=0, ge=0, description="Number of requests that failed since the last success.")
    waiting: int = Field(default=0, ge=0, description="Number of events that wait to be sent, up to 10,000.")
    result: str = Field(default="", description="Result of most failed requests, such as timeout or http_status.")
    status_code: int | None = Field(default=None, description="HTTP status of these requests, if they were answered.")
    is_warning: bool = Field(
        default=False, description="False when the failure is announced, true for the warning before the disabling."
    )
    disables_at: UtcTime | None = Field(
        default=None, description="Time at which it is disabled unless a delivery succeeds; omitted if it never is."
    )


class WebhookRecoveredData(EventData):
    """A failing webhook that received a delivery again."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    failed_since: UtcTime = Field(description="Start of the failing period.")
    recovered_at: UtcTime = Field(description="Time at which the success was recorded.")


class WebhookDisabledData(EventData):
    """A webhook that receives nothing until it is enabled again."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    reason: str = Field(description="Human-readable reason.")
    reason_code: str = Field(default="text", description="Code of the reason; `text` if a person wrote it.")
    disabled_at: UtcTime = Field(description="Time at which it was disabled.")


class RecoveryEndedData(EventData):
    """The end of an automatic recovery: the missed events were sent again, or are too old for it."""

    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    failed_since: UtcTime = Field(description="Time of the first delivery given up in the failure.")
    recovered: int = Field(ge=0, description="Number of missed events that were delivered.")
    given_up: int = Field(ge=0, description="Number of missed events that were sent again, but given up again.")


class DeliveryGivenUpData(EventData):
    """A delivery whose last attempt failed."""

    delivery_id: str = Field(pattern=r"^dlv_[0-9A-Za-z]+$", description="The delivery.")
    event_id: str = Field(pattern=r"^evt_[0-9A-Za-z]+$", description="The undelivered event.")
    event_type: str = Field(description="The type of that event.")
    webhook_id: WebhookId
    url: Url
    owner: OwnerId = None
    attempts: int = Field(ge=0, description="Number of attempts.")
    last_result: str = Field(description="Result of the last attempt, such as timeout or http_status.")


WEBHOOK_FAILING = EventType(
    name="webhook.failing",
    group=_GROUP,
    description="A webhook is failing",
    data_model=WebhookFailingData,
    example={
        **_WEBHOOK,
        "failing_since": "2026-01-29T00:00:00.123456Z",
        "given_up": 57,
        "failed_requests": 228,
        "waiting": 20,
        "result": "http_status",
        "status_code": 500,
        "is_warning": False,
        "disables_at": "2026-02-03T00:00:00.123456Z",
    },
    operational=True,
)
WEBHOOK_RECOVERED = EventType(
    name="webhook.recovered",
    group=_GROUP,
    description="A failing webhook has recovered",
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
        "reason_code": "all_given_up",
        "disabled_at": "2026-02-03T00:00:41.123456Z",
    },
    operational=True,
)
RECOVERY_ENDED = EventType(
    name="webhook.recovery_ended",
    group=_GROUP,
    description="An automatic recovery has ended",
    data_model=RecoveryEndedData,
    example={**_WEBHOOK, "failed_since": "2026-01-29T00:00:00.123456Z", "recovered": 56, "given_up": 1},
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

OPERATIONAL_EVENT_TYPES = (
    *(WEBHOOK_FAILING, WEBHOOK_RECOVERED, WEBHOOK_DISABLED),
    *(RECOVERY_ENDED, DELIVERY_GIVEN_UP),
)
OPERATIONAL_NAMES = frozenset(event_type.name for event_type in OPERATIONAL_EVENT_TYPES)
