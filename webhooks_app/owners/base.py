"""The contract of a policy about owners."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import QuerySet

from ..event_types import EventType
from ..exceptions import InvalidOwnerError
from .registry import owner_model


class BaseOwners:
    """Which rows of ``WEBHOOKS_OWNER_MODEL`` own webhooks, which users act for them, and what they are called.

    ``WEBHOOKS_OWNERS`` names a subclass. Staff who may manage all webhooks, commands and the project's own code are
    not limited by ``visible_to``.
    """

    @property
    def name_field(self) -> str:
        """The field of the owner model that commands, forms and searches find an owner by."""
        return "name"

    def check(self, owner: Any) -> None:
        """Raise InvalidOwnerError unless new webhooks, events and API keys may belong to this owner."""
        if not isinstance(owner, owner_model()):
            # The class that it claims to be: request.user stands for another object.
            raise InvalidOwnerError(
                f"The owner is of type {owner.__class__.__name__}; give an instance of {owner_model()._meta.label}, "
                "or None for the platform."
            )
        if owner._state.adding:
            raise InvalidOwnerError("The owner is not saved yet; save it first.")
        if owner.pk is None:
            raise InvalidOwnerError("The owner is deleted; emit its last events before you delete it.")

    def for_request(self, request: Any) -> Any | None:
        """Return the owner that a request to the API without an API key acts for; None if there is none.

        Only called if the project adds an authentication of its own to the API's views. ``request.user`` is the user.
        """
        raise NotImplementedError

    def is_active(self, owner: Any) -> bool:
        """Return False for an owner whose API keys are refused."""
        return bool(getattr(owner, "is_active", True))

    def visible_to(self, user: Any) -> QuerySet[Any]:
        """Return the owners whose webhooks a member of staff sees and manages in the console."""
        raise NotImplementedError

    def recipients(self, owner: Any) -> list[str]:
        """Return the e-mail addresses that are told about the owner's failing webhooks."""
        raise NotImplementedError

    def sees(self, owner: Any | None, event_type: EventType[Any]) -> bool:
        """Return False for an event type that an owner neither sees nor can subscribe to.

        ``owner`` is None for the public documentation of the API. Operational event types are never asked about.
        """
        return True

    def label(self, owner: Any) -> str:
        """Return the name of an owner for people."""
        return str(getattr(owner, self.name_field))

    def named(self, name: str) -> QuerySet[Any]:
        """Return the owners with this name, to the letter."""
        found: QuerySet[Any] = owner_model()._default_manager.filter(**{self.name_field: name})
        return found

    def found(self, text: str) -> QuerySet[Any]:
        """Return the owners that a person means: those with this name, else the one with this primary key."""
        named = self.named(text)
        if named.exists():
            return named
        model = owner_model()
        try:
            key = model._meta.pk.to_python(text)
        except ValidationError:
            return named
        found: QuerySet[Any] = model._default_manager.filter(pk=key)
        return found

    def problem(self) -> str:
        """Return why this policy does not fit the owner model, for the system check; "" if it does."""
        try:
            owner_model()._meta.get_field(self.name_field)
        except FieldDoesNotExist:
            return f"{owner_model()._meta.label} has no field {self.name_field!r}, the name_field of {_path(self)}"
        return ""


def _path(policy: BaseOwners) -> str:
    return f"{type(policy).__module__}.{type(policy).__qualname__}"
