"""Django signals about the results of attempts."""

from __future__ import annotations

from collections.abc import Sequence

from ..models import Delivery, DeliveryAttempt
from ..signals import attempt_made, delivery_given_up, delivery_succeeded
from .claim import Finished
from .outcome import State


def announce(finished: Sequence[Finished]) -> None:
    """Send the signals for recorded attempts."""
    if not any(signal.receivers for signal in (attempt_made, delivery_succeeded, delivery_given_up)):
        return
    for item in finished:
        attempt_made.send_robust(DeliveryAttempt, attempt=item.attempt, **item.claim.ids)
        if item.claim.pick.kind == Delivery.Kind.VERIFICATION:
            continue  # The Webhook model sends the signals of a handshake.
        if item.step.state == State.SUCCEEDED:
            delivery_succeeded.send_robust(Delivery, **item.claim.ids)
        elif item.step.state == State.GIVEN_UP:
            delivery_given_up.send_robust(Delivery, attempt=item.attempt, **item.claim.ids)
