"""Owners: the accounts that own webhooks, events and API keys, and the project's policy for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Flag, auto
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist, FieldError, ImproperlyConfigured, ValidationError
from django.db import connections, models, router

from .conf import settings
from .database.sql import CompiledRows, Slot, current
from .event_types import EventType, EventTypeRegistry, registry
from .exceptions import InvalidOwnerError
from .implementations import Implementations
from .reasons import ReasonText

__all__ = [
    "Access",
    "BaseOwners",
    "MemberOwners",
    "UserOwners",
    "owner_model",
    "owner_rows",
    "owners",
    "owners_by_key",
    "parse_key",
]


def owner_model_name() -> str:
    """Return the value of ``WEBHOOKS_OWNER_MODEL``, by default the user model."""
    return str(settings.OWNER_MODEL or django_settings.AUTH_USER_MODEL)


def owner_model() -> Any:
    """Return the model of owners. Raise ImproperlyConfigured if it is not installed."""
    return _model(owner_model_name())


def owner_rows() -> Any:
    """Return the default manager of the owner model, on the database for writes."""
    return current(owner_model()._default_manager)


def owners_with_key(text: str) -> models.QuerySet[Any]:
    """Return the owner with this primary key, if there is one."""
    rows: models.QuerySet[Any] = owner_rows().all()
    try:
        return rows.filter(pk=parse_key(text))
    except InvalidOwnerError:
        return rows.none()


@lru_cache(maxsize=16)
def _model(name: str) -> Any:
    try:
        return apps.get_model(name, require_ready=False)
    except (LookupError, ValueError) as error:
        raise ImproperlyConfigured(f"WEBHOOKS_OWNER_MODEL is {name!r}: {error}") from None


def parse_key(text: str) -> Any:
    """Return the primary key of the owner model that a text names. There need not be such an owner.

    A key must be written as Python prints it. A number with a space, a leading zero or digits of another script isn't a
    key, although ``int`` reads it. UUIDs may be in capitals or without hyphens.

    Raise InvalidOwnerError for any other text, such as the owner's name.
    """
    try:
        key = owner_model()._meta.pk.to_python(text)
    except ValidationError:
        key = None
    if key is None or text not in _spellings(key, text):
        raise InvalidOwnerError(
            f"{text[:100]!r} is not a primary key of {owner_model()._meta.label}. Send the owner's primary key "
            "(str(owner.pk)), not its name."
        )
    return key


def _spellings(key: Any, text: str) -> Iterable[str]:
    if isinstance(key, UUID) and text.lower() in (str(key), key.hex):
        return (text,)
    return (str(key),)


def owners_by_key(keys: Iterable[Any]) -> Mapping[Any, Any]:
    """Return the existing owners among these primary keys, by primary key."""
    wanted, model = set(keys), owner_model()
    try:
        if len(wanted) == 1 and _is_plain(model):
            using, (key,) = router.db_for_write(model), wanted
            value = model._meta.pk.get_db_prep_value(key, connections[using])
            return {owner.pk: owner for owner in _rows_by_key(model, using).fetch_objects({"key": value})}
        found: Mapping[Any, Any] = owner_rows().in_bulk(wanted)
    except OverflowError:  # a number that SQLite cannot hold
        return {}
    return found


@lru_cache(maxsize=16)
def _is_plain(model: Any) -> bool:
    """Return True if the default manager's query is the same every time: all rows of one table."""
    manager = model._default_manager
    makes_own = type(manager).get_queryset is not models.Manager.get_queryset
    return not makes_own and type(manager.get_queryset()) is models.QuerySet and not model._meta.parents


@lru_cache(maxsize=16)
def _rows_by_key(model: Any, using: str) -> CompiledRows[Any]:
    return CompiledRows(model._default_manager.using(using).filter(pk=Slot("key")).order_by())


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

    def visible_to(self, user: Any) -> models.QuerySet[Any]:
        """Return the owners whose webhooks a user sees on the customers' pages, and a staff member in the console."""
        raise NotImplementedError

    def access(self, user: Any, owners: Sequence[Any]) -> Mapping[Any, Access]:
        """Return what a user may do for each of these owners, by primary key; nothing for a missing owner.

        Called on every request with the owners from ``visible_to``, or the owner from ``for_request``.
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

    def named(self, name: str) -> models.QuerySet[Any]:
        """Return the owners with exactly this name."""
        found: models.QuerySet[Any] = owner_rows().filter(**{self.name_field: name})
        return found

    def found(self, text: str) -> models.QuerySet[Any]:
        """Return the owners with this name or, if there are none, the owner with this primary key."""
        if (named := current(self.named(text))).exists():
            return named
        return owners_with_key(text)

    def problem(self) -> str:
        """Return the reason why this policy does not fit the owner model, for the system check; "" if it does."""
        try:
            owner_model()._meta.get_field(self.name_field)
        except FieldDoesNotExist:
            return f"{owner_model()._meta.label} has no field {self.name_field!r}, the name_field of {_path(self)}"
        return ""


def _path(policy: BaseOwners) -> str:
    return f"{type(policy).__module__}.{type(policy).__qualname__}"


class UserOwners(BaseOwners):
    """For projects whose accounts are users; the default."""

    @property
    def name_field(self) -> str:
        return str(owner_model().USERNAME_FIELD)

    def for_request(self, request: Any) -> Any | None:
        return request.user if isinstance(request.user, owner_model()) else None

    def visible_to(self, user: Any) -> models.QuerySet[Any]:
        visible: models.QuerySet[Any] = owner_rows().filter(pk=user.pk)
        return visible

    def recipients(self, owner: Any) -> list[str]:
        address = getattr(owner, owner.get_email_field_name(), "")
        return [address] if address else []

    def label(self, owner: Any) -> str:
        return str(owner.get_username())

    def named(self, name: str) -> models.QuerySet[Any]:
        # As in the login of the project, which may ignore case.
        manager = owner_rows()
        try:
            found = manager.get_by_natural_key(name)
        except owner_model().DoesNotExist:
            nobody: models.QuerySet[Any] = manager.none()
            return nobody
        # Not visible_to: a subclass may show a user other owners.
        itself: models.QuerySet[Any] = manager.filter(pk=found.pk)
        return itself

    def problem(self) -> str:
        if owner_model() is get_user_model():
            return super().problem()
        return f"UserOwners requires the user model, but WEBHOOKS_OWNER_MODEL is {owner_model()._meta.label}"


class MemberOwners(BaseOwners):
    """For projects whose users share an owner. Each member may act for it."""

    members: ClassVar[str] = "members"
    """The lookup from the owner model to its users, such as ``"memberships__user"``."""

    def for_request(self, request: Any) -> Any | None:
        """Return the user's only owner; override this if users have several."""
        found = list(self.visible_to(request.user)[:2])
        return found[0] if len(found) == 1 else None

    def visible_to(self, user: Any) -> models.QuerySet[Any]:
        theirs = owner_model()._default_manager.filter(**{self.members: user.pk})
        visible: models.QuerySet[Any] = owner_rows().filter(pk__in=theirs.order_by().values("pk"))
        return visible

    def recipients(self, owner: Any) -> list[str]:
        """Return the addresses of the owner's active members."""
        users: Any = get_user_model()
        members = owner_rows().filter(pk=owner.pk)
        if _has_field(users, "is_active"):
            members = members.filter(**{f"{self.members}__is_active": True})
        address = f"{self.members}__{users.get_email_field_name()}"
        return sorted(filter(None, members.order_by().values_list(address, flat=True).distinct()))

    def problem(self) -> str:
        try:
            owner_model()._default_manager.filter(**{f"{self.members}__pk": None})
        except FieldError:
            return f"{owner_model()._meta.label} has no {self.members!r}, the lookup to the members"
        return super().problem()


def _has_field(model: Any, name: str) -> bool:
    try:
        model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


def _problem_of(policy: type[BaseOwners]) -> str:
    try:
        return policy().problem()
    except ImproperlyConfigured:
        return ""  # Another check reports the invalid owner model.


OWNERS = Implementations(BaseOwners, {}, find_problem=_problem_of)


def owners() -> BaseOwners:
    """Return the project's policy for owners."""
    return OWNERS.one(settings.OWNERS)


def check_owner(owner: Any) -> None:
    """Raise ValidationError if the project's policy refuses the owner; None is the platform."""
    if owner is None:
        return
    try:
        owners().check(owner)
    except InvalidOwnerError as error:
        raise ValidationError(str(error), code="invalid_owner") from None


def event_types_for(owner: Any | None) -> EventTypeRegistry:
    """Return the event types that an owner may see, or all of them for None, the platform."""
    return registry if owner is None else _seen_by(owner)


def hidden_types(owner: Any | None) -> list[str]:
    """Return the names of the event types that the policy hides from an owner; none for the platform."""
    seen = event_types_for(owner)
    return [each.name for each in registry if not each.operational and each.name not in seen]


def public_event_types() -> EventTypeRegistry:
    """Return the event types of the API's public documentation."""
    return _seen_by(None)


def _seen_by(owner: Any | None) -> EventTypeRegistry:
    policy = owners()
    return registry.where(lambda event_type: not event_type.operational and policy.sees(owner, event_type))
