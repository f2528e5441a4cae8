"""A webhook whose URL was never reached, with two sets of facts that its owner must not be able to tell apart."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from webhooks_app.models import AuditEntry, Delivery, DeliveryAttempt, QueueEntry, Webhook
from webhooks_app.models.audit import Action
from webhooks_app.models.disclosure import UNREACHABLE_MESSAGE
from webhooks_app.operations.sending import send_test_event
from webhooks_app.transport import TransportError, errors

NAME = "redis.default.example"


class Cause(NamedTuple):
    """The facts about an unreachable URL."""

    error: TransportError
    duration_ms: int
    peer: str
    at: datetime
    """The time of everything that follows from the duration."""

    @property
    def result(self) -> str:
        return self.error.error_class.value

    @property
    def words(self) -> list[str]:
        """Texts that reveal the cause in an answer."""
        return [self.result, self.error.message, str(self.duration_ms), self.peer, f"{self.at:%Y-%m-%d}"]


CAUSES = (
    Cause(errors.not_connected(NAME), 987_613, "10.9.8.6", datetime(2001, 2, 3, 10, tzinfo=UTC)),
    Cause(errors.connect_timed_out(30), 987_651, "10.9.8.7", datetime(2039, 4, 5, 11, tzinfo=UTC)),
)


def make_rows(webhook: Webhook, event_type: str) -> tuple[Delivery, Delivery]:
    """Create a failed verification of two attempts, and a test that awaits its second attempt."""
    fields = {"status": "failed", "status_reason": UNREACHABLE_MESSAGE, "url": f"https://{NAME}/"}
    Webhook.objects.filter(pk=webhook.pk).update(**fields)
    webhook.refresh_from_db()
    handshake = Delivery.objects.queue(webhook=webhook, kind="verification")
    QueueEntry.objects.filter(pk=handshake.pk).delete()
    Delivery.objects.filter(pk=handshake.pk).update(state="given_up", attempt_count=2, is_masked=True)
    test = send_test_event(webhook, event_type)
    Delivery.objects.filter(pk=test.pk).update(attempt_count=1, is_masked=True)
    for delivery, number in ((handshake, 1), (handshake, 2), (test, 1)):
        DeliveryAttempt.objects.create(
            delivery=delivery, number=number, url=webhook.url, started_at=delivery.created_at, is_masked=True
        )
    about = {"owner_id": webhook.owner_id, "changes": {}, "reason": UNREACHABLE_MESSAGE}
    AuditEntry.objects.write(Action.VERIFICATION_FAILED, webhook, **about)
    return handshake, test


def set_cause(cause: Cause) -> None:
    """Store the facts, as if this had always been the cause."""
    attempts = DeliveryAttempt.objects.all()
    attempts.update(
        result=cause.result,
        message=cause.error.message,
        duration_ms=cause.duration_ms,
        peer=cause.peer,
        timings={"dns": cause.duration_ms},
        response_body=f"HTTP/1.1 2 {cause.duration_ms}",
        timestamp=int(cause.at.timestamp()),
    )
    attempts.filter(number=2).update(started_at=cause.at)
    Delivery.objects.update(last_result=cause.result)
    Delivery.objects.final().update(finished_at=cause.at)
    QueueEntry.objects.update(due_at=cause.at)
    Webhook.objects.update(status_changed_at=cause.at)
    AuditEntry.objects.filter(action=Action.VERIFICATION_FAILED).update(created_at=cause.at)
