"""The accounts and webhooks of the demo data, and how each of them fares."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.contrib.auth import get_user_model

from ..event_types import registry
from ..models import Webhook

OF_ALL = 65_536
"""Shares are given in so many parts, since a digest's four digits choose among them."""

NAME_PREFIX = "demo-"
"""What the names of the accounts begin with."""

HOST_SUFFIX = ".demo.invalid"
"""What the hosts of the webhooks end with: no such receiver exists."""

ANSWERS: Mapping[str, tuple[str, int | None]] = {
    "succeeded": ("", 200),
    "http_status": ("Answered with status 503.", 503),
    "timeout": ("The receiver sent no complete answer within 30 seconds.", None),
    "connection_error": (
        "No connection could be opened. Check that the receiver runs and its port is reachable.",
        None,
    ),
    "dns_error": ("The name could not be resolved. Check that it exists in the public DNS.", None),
}
"""What is logged of an attempt by its result: the message and the status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """How a webhook fares. The shares are of its deliveries; what they leave was cancelled."""

    name: str
    at_once: float = 0.0
    later: float = 0.0
    given_up: float = 0.0
    failure: str = "http_status"
    milliseconds: int = 60
    status: str = Webhook.Status.ACTIVE
    reason: str = ""
    is_paused: bool = False


HEALTHY = Profile(name="healthy", at_once=0.995, later=0.004, given_up=0.001)
PROFILES = (
    HEALTHY,
    Profile(name="flaky", at_once=0.72, later=0.25, given_up=0.03, milliseconds=180),
    Profile(name="slow", at_once=0.95, later=0.04, given_up=0.01, failure="timeout", milliseconds=4000),
    Profile(name="down", at_once=0.06, later=0.04, given_up=0.9, failure="connection_error", milliseconds=300),
    HEALTHY,
    Profile(
        name="disabled", at_once=0.3, later=0.1, given_up=0.3, status=Webhook.Status.DISABLED, reason="Under repair."
    ),
    Profile(name="unverified", status=Webhook.Status.PENDING),
    Profile(name="unknown", given_up=1.0, failure="dns_error", milliseconds=20),
    Profile(name="failed", status=Webhook.Status.FAILED, reason="No handshake passed in 4 attempts."),
    Profile(name="paused", at_once=0.97, later=0.02, given_up=0.01, is_paused=True),
    HEALTHY,
    HEALTHY,
)
"""Dealt out to the webhooks in turn, so that a dozen of them have every state."""


CHANGED_AFTER = 0.7
"""After which share of the time a webhook got the status that it has now, where that is not active."""

HEARD_BY = 3
"""To how many webhooks of its owner an event goes, about; there is a type at least for each of more webhooks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A webhook and how it fares."""

    webhook: Webhook
    profile: Profile

    @property
    def is_sent_to(self) -> bool:
        """Whether what is due for it is sent."""
        return self.profile.status == Webhook.Status.ACTIVE and not self.profile.is_paused

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Up to which of OF_ALL an outcome is: at once, later, given up."""
        shares = accumulate((self.profile.at_once, self.profile.later, self.profile.given_up))
        at_once, later, given_up = (round(share * OF_ALL) for share in shares)
        return at_once, later, given_up

    def hears(self, owner_id: Any, event_type: str) -> bool:
        return self.webhook.owner_id in (None, owner_id) and event_type in self.webhook.event_types


def make_owners(count: int) -> list[Any]:
    accounts: Any = get_user_model()
    owners = []
    for number in range(1, count + 1):
        owner, is_new = accounts._default_manager.get_or_create(**{accounts.USERNAME_FIELD: f"{NAME_PREFIX}{number}"})
        if is_new:
            owner.set_unusable_password()
            owner.save()
        owners.append(owner)
    return owners


def make_webhooks(owners: Sequence[Any], count: int, *, seed: int, since: datetime, now: datetime) -> list[Target]:
    chances = random.Random(seed)  # noqa: S311 - demo data is to be the same each time
    targets = []
    for number in range(count):
        turn, place = divmod(number, len(PROFILES))
        profile = PROFILES[place]
        # The last of each dozen is the platform's. Each dozen begins with another owner, so that they have all kinds.
        owner = None if place == len(PROFILES) - 1 else owners[(number + turn) % len(owners)]
        is_changed = profile.status != Webhook.Status.ACTIVE
        webhook = Webhook(
            owner=owner,
            url=f"https://{profile.name}-{number + 1}{HOST_SUFFIX}/webhooks",
            event_types=_subscribed(number, count if owner is None else count / len(owners), chances),
            description=f"Demo: {profile.name}",
            status=profile.status,
            status_reason=profile.reason,
            status_changed_at=since + (now - since) * (CHANGED_AFTER if is_changed else 0),
            paused_at=now - (now - since) * 0.1 if profile.is_paused else None,
            created_at=since,
        )
        webhook.secret = f"whsec_demo_{number:06}_nothing_is_sent"
        targets.append(Target(webhook=webhook, profile=profile))
    Webhook.objects.bulk_create([target.webhook for target in targets], batch_size=500)
    return targets


def _subscribed(number: int, among: float, chances: random.Random) -> list[str]:
    """Return so many event types that each is heard by a few of these webhooks.

    The first of all, and the first of the platform's, hear everything: so no type goes to nobody.
    """
    names = list(registry.emittable_names())
    if number in (0, len(PROFILES) - 1):
        return names
    chosen = chances.sample(names, max(1, round(len(names) * min(1, HEARD_BY / among))))
    return sorted(chosen, key=names.index)
