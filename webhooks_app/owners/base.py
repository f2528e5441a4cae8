"""The contract of a policy for owners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Flag, auto
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import QuerySet

from ..database.current import current
from ..event_types import EventType
from ..exceptions import InvalidOwnerError
from ..reasons import ReasonText
from .keys import parse_key
from .registry import owner_model, owner_rows


class Access(Flag):
    """What a user may do with everything that belongs to an owner."""

    READ = auto()
    """See webhooks, events, deliveries, API keys and the audit log."""
    MANAGE = auto()
    """Change, pause, test and delete webhooks, send events again, revoke API keys."""
    SECRETS = auto()
    """Create what has a secret that is shown once, webhooks and API keys, and rotate secrets."""

    ALL = READ | MANAGE | SECRETS


class BaseOwners:
    """A policy for owners: the rows of ``WEBHOOKS_OWNER_MODEL`` that may own webhooks, their users and their names.

    ``WEBHOOKS_OWNERS`` names a subclass. ``visible_to`` does not limit staff who may manage all webhooks, management
    commands, and the project's own code.
    """

    @property
    def name_field(self) -> str:
        """The field of the owner model by which commands, forms and searches find an owner."""
        return "name"

    def check(self, owner: Any) -> None:
        """Raise InvalidOwnerError if new webhooks, events and API keys must not belong to this owner."""
        if not isinstance(owner, owner_model()):
            # The apparent class, because request.user is a proxy for another object.
            raise InvalidOwnerError(
                f"The owner is of type {owner.__class__.__name__}; pass an instance of {owner_model()._meta.label}, "
                "or None for the platform."
            )
        if owner._state.adding:
            raise InvalidOwnerError(ReasonText("owner_unsaved"))
        if owner.pk is None:
            raise InvalidOwnerError(ReasonText("owner_deleted"))

    def for_request(self, request: Any) -> Any | None:
        """Return the owner for an API request without an API key; None if there is none.

        Called only if the project adds an authentication of its own to the API's views. ``request.user`` is the user.
        """
        raise NotImplementedError

    def is_active(self, owner: Any) -> bool:
        """Return False to refuse the owner's API keys."""
        return bool(getattr(owner, "is_active", True))

    def visible_to(self, user: Any) -> QuerySet[Any]:
        """Return the owners whose webhooks a staff member sees in the console, and manages if ``access`` permits."""
        raise NotImplementedError

    def access(self, user: Any, owners: Sequence[Any]) -> Mapping[Any, Access]:
        """Return what a user may do for each of these owners, by primary key; nothing for a missing owner.

        Called once per request with the owners from ``visible_to``, or the owner from ``for_request``.
        """
        return dict.fromkeys((owner.pk for owner in owners), Access.ALL)

    def recipients(self, owner: Any) -> list[str]:
        """Return the e-mail addresses for warnings about the owner's failing webhooks."""
        raise NotImplementedError

    def sees(self, owner: Any | None, event_type: EventType[Any]) -> bool:
        """Return False to hide an event type from an owner, who then cannot subscribe to it either.

        ``owner`` is None for the public documentation of the API. This is never called for operational event types.
        """
        return True

    def label(self, owner: Any) -> str:
        """Return the display name of an owner."""
        return str(getattr(owner, self.name_field))

    def named(self, name: str) -> QuerySet[Any]:
        """Return the owners with exactly this name."""
        found: QuerySet[Any] = owner_rows().filter(**{self.name_field: name})
        return found

    def found(self, text: str) -> QuerySet[Any]:
        """Return the owners with this name or, if there are none, the owner with this primary key."""
        named = current(self.named(text))
        if named.exists():
            return named
        try:
            key = parse_key(text)
        except InvalidOwnerError:
            return named
        found: QuerySet[Any] = owner_rows().filter(pk=key)
        return found

    def problem(self) -> str:
        """Return the reason why this policy does not fit the owner model, for the system check; "" if it does."""
        try:
            owner_model()._meta.get_field(self.name_field)
        except FieldDoesNotExist:
            return f"{owner_model()._meta.label} has no field {self.name_field!r}, the name_field of {_path(self)}"
        return ""


def _path(policy: BaseOwners) -> str:
    return f"{type(policy).__module__}.{type(policy).__qualname__}"
