"""The webhooks to which the events of a list have deliveries, and how many got them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext

from ..models import Delivery
from ..models.keyset import HORIZON

State = Delivery.State
BEST_FIRST = (State.SUCCEEDED, State.PENDING, State.CANCELLED, State.GIVEN_UP)


@dataclass(kw_only=True, slots=True)
class Recipients:
    """The webhooks to which an event has deliveries, each with its best state: a redelivery may have succeeded."""

    states: dict[str, str] = field(default_factory=dict)
    has_more: bool = False

    def add(self, webhook_id: str, state: str) -> None:
        self.states[webhook_id] = min(self.states.get(webhook_id, state), state, key=BEST_FIRST.index)

    @property
    def count(self) -> int:
        return len(self.states)

    @property
    def succeeded(self) -> int:
        return sum(state == State.SUCCEEDED for state in self.states.values())

    @property
    def state(self) -> str:
        """The worst of the states."""
        return max(self.states.values(), key=BEST_FIRST.index)

    @property
    def in_words(self) -> str:
        """The number of the succeeded deliveries, and those of the others by state."""
        text = (
            gettext("%(done)d of more than %(all)d delivered")
            if self.has_more
            else gettext("%(done)d of %(all)d delivered")
        )
        numbers = Counter(State(state) for state in self.states.values())
        others = [f"{numbers[state]} {state.label}" for state in BEST_FIRST[1:] if numbers[state]]
        return ", ".join([text % {"done": self.succeeded, "all": self.count}, *others])


def recipients_of(deliveries: QuerySet[Any], event_ids: Sequence[str]) -> dict[str, Recipients]:
    """Return the recipients by event, with one query. Events that are beyond its limit are left out."""
    recipients: dict[str, Recipients] = {}
    rows = deliveries.filter(event__in=event_ids).order_by("-event_id")
    listed = list(rows.values_list("event_id", "webhook_id", "state")[:HORIZON])
    for event_id, webhook_id, state in listed:
        recipients.setdefault(event_id, Recipients()).add(webhook_id, state)
    if len(listed) == HORIZON:
        recipients[listed[-1][0]].has_more = True
    return recipients
