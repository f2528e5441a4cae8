"""The events of the webhooks: one for each half of them."""

from __future__ import annotations

from dataclasses import dataclass

from django_domain_events import event


@event
@dataclass(frozen=True, slots=True)
class FirstOrder:
    text: str


@event
@dataclass(frozen=True, slots=True)
class SecondOrder:
    text: str
