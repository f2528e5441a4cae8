"""An owner policy: accounts without a plan have no webhooks, and no events."""

from __future__ import annotations

from typing import Any

from webhooks_app.event_types import EventType
from webhooks_app.exceptions import InvalidOwnerError
from webhooks_app.owners import UserOwners


class PayingOwners(UserOwners):
    """The plan of an account is in its last name."""

    def check(self, owner: Any) -> None:
        super().check(owner)
        if not owner.last_name:
            raise InvalidOwnerError("This account has no plan with webhooks.")

    def sees(self, owner: Any | None, event_type: EventType[Any]) -> bool:
        return owner is None or owner.last_name == "large" or not event_type.name.startswith("file.")
