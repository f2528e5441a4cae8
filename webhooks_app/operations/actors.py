"""Actors: the callers of operations, with their rights and limits.

A host's own interface adds a subclass of ``BaseActor``. ``changing`` is the common part of all operations on rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils.translation import gettext

from ..database.sql import current, writing
from ..models import ApiKey, Delivery, Problem, Replay, Webhook
from ..models.api_key import SERVICE_SCOPES
from ..models.audit import Actor, Via, acting
from ..owners import Access, owners
from .rights import MANAGE_ALL, NOT_FOR_MEMBERS, AccessDeniedError, Right

__all__ = ["ApiCaller", "BaseActor", "Member", "Operator", "ProjectCode", "StaffMember"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseActor(Actor):
    """The contract of an actor; its ``account`` and ``name`` are written into audit entries."""

    def holds(self, right: Right) -> bool:
        """Return True if the actor has the right at all, for example to decide whether to show a button."""
        raise NotImplementedError

    def access_to(self, owner_id: Any) -> Access:
        """Return what the actor may do with the rows of this owner; None is the platform."""
        raise NotImplementedError

    @property
    def is_throttled(self) -> bool:
        """Whether the rate limits that protect receivers apply."""
        return True

    @property
    def may_exceed_ceilings(self) -> bool:
        """Whether the actor may grant a webhook more than its owner could request."""
        return False

    def is_owner(self, owner_id: Any) -> bool:
        """Return True if the actor acts for this owner rather than as an operator of the service."""
        return False

    def may(self, right: Right, owner_id: Any) -> bool:
        return self.holds(right) and right.access in self.access_to(owner_id)

    def require(self, right: Right, owner_id: Any) -> None:
        """Raise AccessDeniedError unless the actor may do this for the owner."""
        if not self.holds(right):
            message = gettext("This requires the permission %(permission)s.")
            raise AccessDeniedError(message % {"permission": right.permission})
        access = self.access_to(owner_id)
        if right.access not in access:
            raise AccessDeniedError(lacking(access))


def lacking(access: Access) -> str:
    """Return in words what an actor with this access may not do."""
    if Access.READ not in access:
        return gettext("This belongs to an account that you have no access to.")
    if Access.MANAGE not in access:
        return gettext("You may view the webhooks of this account, but not change them.")
    return gettext("You may not create or replace secrets of this account.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiCaller(BaseActor):
    """An account that calls the API.

    ``account`` is the user, if known: the calling user, or the user of the key. ``scopes`` are the scopes of the key,
    which limit what it may do. With another authentication of the host they are None: the owner policy then says what
    the user may do for the owner.
    """

    via: str = Via.API
    owner: Any
    """The owner that the caller acts for."""
    scopes: Collection[str] | None = None

    def has_scope(self, scope: str) -> bool:
        return scope not in SERVICE_SCOPES and (self.scopes is None or scope in self.scopes)

    def holds(self, right: Right) -> bool:
        return bool(right.scope) and self.has_scope(right.scope)

    def access_to(self, owner_id: Any) -> Access:
        if not self.is_owner(owner_id):
            return Access(0)
        return Access.ALL if self.scopes is not None else access_of(self.account, [self.owner]).get(owner_id, Access(0))

    def is_owner(self, owner_id: Any) -> bool:
        return owner_id is not None and owner_id == self.owner.pk


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceCaller(BaseActor):
    """Another service of the project, which calls the API with a service key on behalf of any owner."""

    via: str = Via.API
    scopes: Collection[str]

    def has_scope(self, scope: str) -> bool:
        return scope in self.scopes

    def holds(self, right: Right) -> bool:
        return bool(right.scope) and self.has_scope(right.scope)

    def access_to(self, owner_id: Any) -> Access:
        return Access.ALL


@dataclass(frozen=True, kw_only=True, slots=True)
class Member(BaseActor):
    """A user of the customers' pages, with the access that the owner policy gives for one owner."""

    via: str = Via.PORTAL
    owner: Any
    """The owner that the user acts for."""
    access: Access

    def holds(self, right: Right) -> bool:
        return right not in NOT_FOR_MEMBERS

    def access_to(self, owner_id: Any) -> Access:
        return self.access if self.is_owner(owner_id) else Access(0)

    def is_owner(self, owner_id: Any) -> bool:
        return owner_id is not None and owner_id == self.owner.pk


@dataclass(frozen=True, kw_only=True)
class StaffMember(BaseActor):
    """A user of the console, with Django's permissions, and the access that the owner policy gives."""

    via: str = Via.CONSOLE

    @property
    def manages_all(self) -> bool:
        return bool(self.account.has_perm(MANAGE_ALL))

    @property
    def may_exceed_ceilings(self) -> bool:
        return self.manages_all

    def holds(self, right: Right) -> bool:
        return bool(self.account.has_perm(right.permission))

    def access_to(self, owner_id: Any) -> Access:
        return Access.ALL if self.manages_all else self._access.get(owner_id, Access(0))

    def is_owner(self, owner_id: Any) -> bool:
        return owner_id in self.owner_ids

    @cached_property
    def owners(self) -> list[Any]:
        """The owners whose rows are visible to the user."""
        return [owner for owner in self._found if owner.pk in self.owner_ids]

    @cached_property
    def owner_ids(self) -> frozenset[Any]:
        return frozenset(pk for pk, access in self._access.items() if Access.READ in access)

    def owners_for(self, right: Right) -> list[Any]:
        """Return the owners for whom the user may do this."""
        return [owner for owner in self.owners if self.may(right, owner.pk)]

    @cached_property
    def _found(self) -> list[Any]:
        return list(current(owners().visible_to(self.account)))

    @cached_property
    def _access(self) -> Mapping[Any, Access]:
        return access_of(self.account, self._found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trusted(BaseActor):
    @property
    def may_exceed_ceilings(self) -> bool:
        return True

    def holds(self, right: Right) -> bool:
        return True

    def access_to(self, owner_id: Any) -> Access:
        return Access.ALL


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator(_Trusted):
    """The user of a management command, with every right and the usual rate limits."""

    via: str = Via.COMMAND


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectCode(_Trusted):
    """The project's own code, which checks permissions and frequency itself."""

    via: str = Via.CODE

    @property
    def is_throttled(self) -> bool:
        return False


PROJECT = ProjectCode()


def access_of(user: Any, found: Sequence[Any]) -> dict[Any, Access]:
    """Return what the owner policy permits a user for each of these owners."""
    given = owners().access(user, found) if found else {}
    return {owner.pk: given.get(owner.pk, Access(0)) for owner in found}


@contextmanager
def changing(right: Right, row: Webhook | ApiKey | Delivery | Replay | Problem, actor: BaseActor) -> Iterator[Any]:
    """Lock and reload a row, and attribute all changes within the block to the actor.

    Its owner and state may have changed since it was loaded, so only the locked values count. Yields another instance
    of the saved row, if the model's ``lock`` returns one. Raise AccessDeniedError, and WebhookStateError for a row
    that is no longer kept.
    """
    with acting(actor), writing(row.alias, type(row)):
        saved = row.lock()
        actor.require(right, row.owner_id)
        yield saved
