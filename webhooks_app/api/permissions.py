"""Permissions of API keys: the scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from ..models.api_key import SERVICE_SCOPES
from ..operations.actors import ApiCaller, ServiceCaller

if TYPE_CHECKING:
    from .base import ApiViewSet


class HasScope(IsAuthenticated):
    """Require an account and, for an API key, the scope of the operation, before the body is read."""

    def has_permission(self, request: Request, view: ApiViewSet | Any) -> bool:
        if not super().has_permission(request, view):
            return False
        if view.operation and view.operation.scope:
            require_scope(view.actor, view.operation.scope)
        return True


def require_scope(caller: ApiCaller | ServiceCaller, scope: str) -> None:
    """Raise PermissionDenied unless the caller has the scope."""
    if caller.has_scope(scope):
        return
    if scope in SERVICE_SCOPES:
        raise PermissionDenied(f"This requires a service key, with the scope {scope}.")
    raise PermissionDenied(f"This API key lacks the scope {scope}.")
