"""Accounts and webhooks of the demo data, with webhooks in every state."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import EmailField

from webhooks_app.event_types import registry
from webhooks_app.models import Webhook
from webhooks_app.owners import owner_model, owner_rows, owners
from webhooks_app.reasons import ReasonText
from webhooks_app.routing import RoutedEvent, concerns

NAME_PREFIX = "demo-"
"""Prefix of the owners' names."""

HOST_SUFFIX = ".demo.invalid"
"""Suffix of the webhooks' hosts, a domain reserved by RFC 2606."""

CHANGED_AFTER = 0.7
"""Share of the time after which inactive webhooks changed their status."""

HELD_SHARE = 0.1
"""Share of a disabled webhook's time before, in which it was paused."""

SUBSCRIBERS = 3
"""Average number of an owner's webhooks that receive the same event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """Behaviour of a receiver as shares of its deliveries."""

    name: str
    at_once: float = 0.0
    later: float = 0.0
    given_up: float = 0.0
    failure: str = "http_status"
    milliseconds: int = 60
    status: str = Webhook.Status.ACTIVE
    reason: str = ""
    is_paused: bool = False
    fails_for: timedelta | None = None
    """Span until the end in which the receiver behaves like this. Before, it is healthy."""


HEALTHY = Profile(name="healthy", at_once=0.995, later=0.004, given_up=0.001)
PROFILES = (
    HEALTHY,
    Profile(name="flaky", at_once=0.72, later=0.25, given_up=0.03, milliseconds=180),
    Profile(name="slow", at_once=0.95, later=0.04, given_up=0.01, failure="timeout", milliseconds=4000),
    Profile(name="down", at_once=0.06, later=0.04, given_up=0.9, failure="connection_error", milliseconds=300),
    HEALTHY,
    Profile(
        name="disabled", at_once=0.4, later=0.1, given_up=0.5, status=Webhook.Status.DISABLED, reason="Under repair."
    ),
    Profile(name="unverified", status=Webhook.Status.PENDING),
    Profile(
        name="unknown", given_up=1.0, failure="dns_error", milliseconds=20, fails_for=timedelta(days=3)
    ),  # Less than the time after which the app disables a failing webhook.
    Profile(
        name="failed",
        status=Webhook.Status.FAILED,
        reason=ReasonText("status_not_200", status=404),
    ),
    Profile(name="paused", at_once=0.97, later=0.02, given_up=0.01, is_paused=True),
    HEALTHY,
    HEALTHY,
)
"""Profiles of twelve webhooks, repeated for the following ones. Every twelfth webhook belongs to the platform."""

MAX_OF_PLATFORM = 36
"""Most webhooks of the platform. Each event goes to some of them, in addition to those of its owner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    webhook: Webhook
    profile: Profile

    @property
    def is_running(self) -> bool:
        return self.profile.status == Webhook.Status.ACTIVE and not self.profile.is_paused

    @property
    def cancelled_since(self) -> datetime | None:
        """Start of the time in which deliveries were held until the webhook was disabled, which cancelled them."""
        if self.profile.status != Webhook.Status.DISABLED:
            return None
        return self.webhook.status_changed_at - (self.webhook.status_changed_at - self.webhook.created_at) * HELD_SHARE

    def profile_at(self, moment: datetime, until: datetime) -> Profile:
        span = self.profile.fails_for
        return HEALTHY if span is not None and moment < until - span else self.profile

    def receives(self, owner_id: Any, event_type: str) -> bool:
        return concerns(self.webhook, RoutedEvent(type=event_type, owner_id=owner_id))


def make_owners(count: int) -> list[Any]:
    """Return the demo's owners, created if necessary, without signals that emit events. They cannot log in."""
    field, model = owners().name_field, owner_model()
    names = [demo_name(number) for number in range(1, count + 1)]
    existing = owner_rows().filter(**{f"{field}__in": names})
    known = set(existing.values_list(field, flat=True))
    new = [model(**{field: name}) for name in names if name not in known]
    for owner in new:
        if hasattr(owner, "set_unusable_password"):
            owner.set_unusable_password()
    owner_rows().bulk_create(new)
    by_name = {getattr(owner, field): owner for owner in existing.all()}
    return [by_name[name] for name in names]


def demo_name(number: int) -> str:
    """Return the name of a demo owner, an e-mail address if the user model requires one."""
    is_address = isinstance(owner_model()._meta.get_field(owners().name_field), EmailField)
    return f"{NAME_PREFIX}{number}{'@demo.invalid' if is_address else ''}"


def make_webhooks(owners: Sequence[Any], count: int, *, seed: int, since: datetime, until: datetime) -> list[Target]:
    chances = random.Random(seed)  # noqa: S311 - reproducible, not secret
    targets = [_target(number, owners, count, chances, since=since, until=until) for number in range(count)]
    Webhook.objects.bulk_create([target.webhook for target in targets], batch_size=500)
    return targets


def _target(
    number: int, owners: Sequence[Any], count: int, chances: random.Random, *, since: datetime, until: datetime
) -> Target:
    dozen, place = divmod(number, len(PROFILES))
    profile = PROFILES[place]
    # Each dozen starts with another owner, so that every owner has webhooks of all profiles.
    is_of_platform = place == len(PROFILES) - 1 and dozen < MAX_OF_PLATFORM
    owner = None if is_of_platform else owners[(number + dozen) % len(owners)]
    # The others never passed their handshake, which follows the registration.
    is_changed = profile.status == Webhook.Status.DISABLED
    webhook = Webhook(
        owner=owner,
        url=f"https://{profile.name}-{number + 1}{HOST_SUFFIX}/webhooks",
        event_types=_event_types(number, count if owner is None else count / len(owners), chances),
        description=f"Demo: {profile.name}",
        status=profile.status,
        status_reason=profile.reason,
        status_changed_at=since + (until - since) * (CHANGED_AFTER if is_changed else 0),
        paused_at=until if profile.is_paused else None,
        created_at=since,
    )
    webhook.secret = f"whsec_demo_{number:06}_nothing_is_sent"
    return Target(webhook=webhook, profile=profile)


def _event_types(number: int, among: float, chances: random.Random) -> list[str]:
    """Return event types so that each has a few subscribers among these webhooks.

    The first webhook and the platform's first webhook are subscribed to all of them.
    """
    names = list(registry.emittable_names())
    if number in (0, len(PROFILES) - 1):
        return names
    chosen = chances.sample(names, max(1, round(len(names) * min(1, SUBSCRIBERS / among))))
    return sorted(chosen, key=names.index)
