"""Internal messages: they cannot be emitted or subscribed to, but are documented like event types."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from .base import EventData, EventType, UtcTime


class VerificationData(EventData):
    """The challenge that a receiver must return to confirm that it expects webhooks."""

    challenge: str = Field(description="Return it unchanged, in the field challenge of a JSON object.")


class RetryNoticeData(EventData):
    """An event that could not be delivered yet, and the time of its next retry."""

    original_event_id: str = Field(pattern=r"^evt_[0-9A-Za-z]+$", description="The event to be retried.")
    retry_count: int = Field(ge=1, description="Number of the next retry, from 1.")
    next_retry_at: UtcTime = Field(description="Time of that retry.")


VERIFICATION = EventType(
    name="webhook.verification",
    group="Internal",
    description="Verifies a newly registered URL; the body has neither id nor created.",
    data_model=VerificationData,
    example={"challenge": "Zb3CkX0oSKS0tnHnBv4Zv2Jq9C5m1iVhXoV6jXQm6nY"},
)

RETRY_NOTICE = EventType(
    name="webhook.retry",
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


def retry_notice_data(*, original_event_id: str, retry_count: int, next_retry_at: datetime) -> dict[str, Any]:
    """Return the data of a ``webhook.retry`` notice."""
    return RETRY_NOTICE.validate(
        {"original_event_id": original_event_id, "retry_count": retry_count, "next_retry_at": next_retry_at}
    )
