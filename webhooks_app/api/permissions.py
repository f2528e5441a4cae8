"""What an API key may do: the scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from ..models import ApiKey

if TYPE_CHECKING:
    from .base import ApiViewSet


class HasScope(IsAuthenticated):
    """Ask for an account, and of an API key for the scope of the operation that is called.

    Scopes narrow API keys. A host that lets people in by another authentication gives them every operation.
    """

    def has_permission(self, request: Request, view: ApiViewSet | Any) -> bool:
        if not super().has_permission(request, view):
            return False
        scope = view.operation.scope if view.operation else ""
        if scope and isinstance(request.auth, ApiKey) and not request.auth.allows(scope):
            raise PermissionDenied(f"This API key lacks the scope {scope}.")
        return True
