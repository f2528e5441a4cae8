"""Permissions of API keys: the scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from ..models.api_key import SERVICE_SCOPES

if TYPE_CHECKING:
    from .base import ApiViewSet


class HasScope(IsAuthenticated):
    """Require an account and, for an API key, the scope of the operation, before the body is read."""

    def has_permission(self, request: Request, view: ApiViewSet | Any) -> bool:
        if not super().has_permission(request, view):
            return False
        scope = view.operation.scope if view.operation else ""
        if scope and not view.actor.has_scope(scope):
            if scope in SERVICE_SCOPES:
                raise PermissionDenied(f"This requires a service key, with the scope {scope}.")
            raise PermissionDenied(f"This API key lacks the scope {scope}.")
        return True
