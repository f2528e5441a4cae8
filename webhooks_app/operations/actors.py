"""Actors: the callers of operations, with their rights and limits.

A host's own interface adds a subclass of ``BaseActor``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.exceptions import PermissionDenied

from ..models.api_key import SERVICE_SCOPES
from ..models.audit import Actor, Via
from ..owners import owners
from .rights import Right

__all__ = ["ApiCaller", "BaseActor", "Operator", "ProjectCode", "StaffMember"]

MANAGE_ALL = "webhooks_app.manage_all_webhooks"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseActor(Actor):
    """The contract of an actor; its ``account`` and ``name`` are written into audit entries."""

    def holds(self, right: Right) -> bool:
        """Return True if the actor has the right at all, for example to decide whether to show a button."""
        raise NotImplementedError

    def reaches(self, owner_id: Any) -> bool:
        """Return True if the actor may act on rows of this owner; None is the platform."""
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
        return self.holds(right) and self.reaches(owner_id)

    def require(self, right: Right, owner_id: Any) -> None:
        """Raise django.core.exceptions.PermissionDenied unless the actor may do this for the owner."""
        if not self.may(right, owner_id):
            raise PermissionDenied(f"This requires the permission {right.permission}, and access to the owner's rows.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiCaller(BaseActor):
    """An account that calls the API.

    ``account`` is the user, if known: the calling user, or the user of the key. ``scopes`` are those of the key; None
    for another authentication of the host, which does not narrow the user's rights.
    """

    via: str = Via.API
    owner: Any
    """The owner that the caller acts for."""
    scopes: Collection[str] | None = None

    def has_scope(self, scope: str) -> bool:
        return scope not in SERVICE_SCOPES and (self.scopes is None or scope in self.scopes)

    def holds(self, right: Right) -> bool:
        return bool(right.scope) and self.has_scope(right.scope)

    def reaches(self, owner_id: Any) -> bool:
        return self.is_owner(owner_id)

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

    def reaches(self, owner_id: Any) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class StaffMember(BaseActor):
    """A user of the console, with Django's permissions."""

    via: str = Via.CONSOLE

    @property
    def manages_all(self) -> bool:
        return bool(self.account.has_perm(MANAGE_ALL))

    @property
    def may_exceed_ceilings(self) -> bool:
        return self.manages_all

    def holds(self, right: Right) -> bool:
        return bool(self.account.has_perm(right.permission))

    def reaches(self, owner_id: Any) -> bool:
        return self.is_owner(owner_id) or self.manages_all

    def is_owner(self, owner_id: Any) -> bool:
        return owner_id in self.owner_ids

    @cached_property
    def owners(self) -> list[Any]:
        """The owners whose rows are visible to the user."""
        return list(owners().visible_to(self.account))

    @cached_property
    def owner_ids(self) -> frozenset[Any]:
        return frozenset(owner.pk for owner in self.owners)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trusted(BaseActor):
    @property
    def may_exceed_ceilings(self) -> bool:
        return True

    def holds(self, right: Right) -> bool:
        return True

    def reaches(self, owner_id: Any) -> bool:
        return True


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
