"""Users as owners: each user has their own webhooks."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from .base import BaseOwners
from .registry import owner_model, owner_rows


class UserOwners(BaseOwners):
    """For projects whose accounts are users; the default."""

    @property
    def name_field(self) -> str:
        return str(owner_model().USERNAME_FIELD)

    def for_request(self, request: Any) -> Any | None:
        return request.user if isinstance(request.user, owner_model()) else None

    def visible_to(self, user: Any) -> QuerySet[Any]:
        visible: QuerySet[Any] = owner_rows().filter(pk=user.pk)
        return visible

    def recipients(self, owner: Any) -> list[str]:
        address = getattr(owner, owner.get_email_field_name(), "")
        return [address] if address else []

    def label(self, owner: Any) -> str:
        return str(owner.get_username())

    def named(self, name: str) -> QuerySet[Any]:
        # As in the login of the project, which may ignore case.
        manager = owner_rows()
        try:
            found = manager.get_by_natural_key(name)
        except owner_model().DoesNotExist:
            nobody: QuerySet[Any] = manager.none()
            return nobody
        return self.visible_to(found)

    def problem(self) -> str:
        if owner_model() is get_user_model():
            return super().problem()
        return f"UserOwners requires the user model, but WEBHOOKS_OWNER_MODEL is {owner_model()._meta.label}"
