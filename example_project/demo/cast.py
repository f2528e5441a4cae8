"""The five receivers of the demo and their behaviour."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhooks_app.event_types.builtin import PRESENTATION_EVENT_TYPES
from webhooks_app.receiver.local import Answers, ChallengeAnswer, LocalReceiver, Received

from .timing import Series, series

ALL_TYPES = tuple(event_type.name for event_type in PRESENTATION_EVENT_TYPES)


@dataclass(frozen=True, kw_only=True)
class Role:
    name: str
    character: str
    event_types: tuple[str, ...]
    answers: Answers = field(default_factory=Answers)
    is_platforms_own: bool = False


ROLES = (
    Role(name="steady", character="always answers 200", event_types=ALL_TYPES),
    Role(
        name="stumbling",
        character="fails twice, then answers 200",
        event_types=("file.uploaded",),
        answers=Answers(statuses=(500, 500, 200)),
    ),
    Role(
        name="refusing",
        character="never answers 200",
        event_types=("user.subscribed",),
        answers=Answers(statuses=(503,)),
    ),
    Role(
        name="impostor",
        character="answers with a wrong challenge",
        event_types=("ppt.generation.completed",),
        answers=Answers(challenge=ChallengeAnswer.WRONG),
    ),
    Role(
        name="platform",
        character="the platform's webhook, for every account",
        event_types=("user.registered",),
        is_platforms_own=True,
    ),
)


class Player:
    """A role with its receiver and, once registered, its webhook."""

    def __init__(self, role: Role, on_received: Callable[[Player, Received], object]) -> None:
        self.role = role
        self.name = role.name
        self.secret = secrets.token_urlsafe(24)
        self.receiver = LocalReceiver(
            secrets=(self.secret,), answers=role.answers, on_received=lambda received: on_received(self, received)
        )
        self.webhook_id = ""
        self.registered_at: datetime | None = None

    @property
    def registration(self) -> dict[str, Any]:
        """Body of the request that registers the webhook."""
        return {"url": self.receiver.url, "events": list(self.role.event_types), "secret": self.secret}

    def registered(self, webhook_id: str, registered_at: datetime) -> None:
        self.webhook_id = webhook_id
        self.registered_at = registered_at

    def series(self, event_type: str | None = None) -> list[Series]:
        assert self.registered_at is not None
        found = series(self.name, self.receiver.received, self.registered_at)
        return [one for one in found if event_type in (None, one.type)]


@contextmanager
def on_stage(on_received: Callable[[Player, Received], object]) -> Iterator[dict[str, Player]]:
    """Yield the players by name. They receive requests until the block ends."""
    with ExitStack() as stack:
        players: Sequence[Player] = [Player(role, on_received) for role in ROLES]
        for player in players:
            stack.enter_context(player.receiver)
        yield {player.name: player for player in players}
