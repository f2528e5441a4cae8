"""Owners that have members, such as organizations, teams and workspaces."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist, FieldError
from django.db.models import QuerySet

from .base import BaseOwners
from .registry import owner_model, owner_rows


class MemberOwners(BaseOwners):
    """For projects whose users share an owner. Each member may act for it."""

    members: ClassVar[str] = "members"
    """The lookup from the owner model to its users, such as ``"memberships__user"``."""

    def for_request(self, request: Any) -> Any | None:
        """Return the user's only owner; override this if users have several."""
        found = list(self.visible_to(request.user)[:2])
        return found[0] if len(found) == 1 else None

    def visible_to(self, user: Any) -> QuerySet[Any]:
        theirs = owner_model()._default_manager.filter(**{self.members: user.pk})
        visible: QuerySet[Any] = owner_rows().filter(pk__in=theirs.order_by().values("pk"))
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
