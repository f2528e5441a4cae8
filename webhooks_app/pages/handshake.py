"""The verification of a webhook's URL: its state in words, with the requests and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.utils.safestring import SafeString

from ..models import Delivery
from ..models.delivery import DeliveryQuerySet
from .display import DeliveryUrl, change_of_url
from .explanation import state_of_handshake, waiting_for
from .transcript import ShownAttempt, transcript


class Handshake(NamedTuple):
    delivery: Delivery
    status: str
    change_of_url: SafeString | str
    """A sentence with both URLs while a new one is verified."""
    waits_for: str
    """Why nothing has been sent yet."""
    attempts: Sequence[ShownAttempt]

    @property
    def state(self) -> str:
        return self.delivery.state


def latest_handshake(deliveries: DeliveryQuerySet, *, url: DeliveryUrl) -> Handshake | None:
    """Return the latest verification among the deliveries of a webhook, for ``parts/handshake.html``."""
    delivery = deliveries.handshakes().with_related().order_by("-pk").first()
    if delivery is None:
        return None
    attempts = transcript(delivery.shown_attempts(), delivery, shows_body=True, url=url)
    return Handshake(
        delivery,
        state_of_handshake(delivery, attempts[-1].why if attempts else ""),
        change_of_url(delivery.webhook),
        "" if attempts else waiting_for(delivery, url=url),
        attempts,
    )
