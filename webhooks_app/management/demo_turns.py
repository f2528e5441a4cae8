"""Who gets the events of the demo data: each goes to all webhooks that hear it, as those that are emitted do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ..event_types import registry
from ..models import Webhook
from .demo_cast import CHANGED_AFTER, Target

TURNS = 1500
"""At least so many deliveries follow each other before they go to the same webhooks again."""

Choice = TypeVar("Choice")


class Turn(NamedTuple):
    """One of an event's deliveries: where it goes, and which of them it is, counted from 0."""

    target: Target
    owner_id: Any
    type_index: int
    place: int


@dataclass(frozen=True, kw_only=True)
class Era:
    """The deliveries of a time in which the same webhooks get events. They take turns, again and again."""

    first: int
    until: int
    turns: Sequence[Turn]
    is_due: bool = False

    def turn(self, number: int) -> Turn:
        return self.turns[(number - self.first) % len(self.turns)]


def make_eras(targets: Sequence[Target], owners: Sequence[Any], deliveries: int, due: int, seed: int) -> list[Era]:
    """Return who gets events before some webhooks are disabled, who afterwards, and who is to get what is due."""
    chances = random.Random(seed)  # noqa: S311 - demo data is to be the same each time
    reached = [target for target in targets if sum(target.bounds)]
    enabled = [target for target in reached if target.webhook.status == Webhook.Status.ACTIVE]
    sent_to = [target for target in targets if target.is_sent_to]
    before, after, still = (_turns(each, owners, chances) for each in (reached, enabled, sent_to))
    changed = round(deliveries * CHANGED_AFTER)
    changed -= before[changed % len(before)].place  # no event is cut in two
    return [
        Era(first=0, until=changed, turns=before),
        Era(first=changed, until=deliveries, turns=after),
        Era(first=deliveries, until=deliveries + due, turns=still, is_due=True),
    ]


def _turns(targets: Sequence[Target], owners: Sequence[Any], chances: random.Random) -> list[Turn]:
    """Draw events that these webhooks hear. The first account has most of them, each next one less; so with types."""
    types, turns = list(enumerate(registry.emittable_names())), list[Turn]()
    while len(turns) < TURNS:
        owner_id, (index, name) = _early(owners, chances), _early(types, chances)
        heard_by = [target for target in targets if target.hears(owner_id, name)]
        turns += [Turn(target, owner_id, index, place) for place, target in enumerate(heard_by)]
    return turns


def _early(choices: Sequence[Choice], chances: random.Random) -> Choice:
    return chances.choices(choices, weights=[1 / rank for rank in range(1, len(choices) + 1)])[0]
