"""Callers of the API: their keys in the Authorization header, the scopes of these, and their rate limit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from ..conf import settings
from ..exceptions import LimitsUnavailableError
from ..implementations import Implementations
from ..models import ApiKey
from ..models.api_key import SERVICE_SCOPES
from ..operations.actors import ApiCaller, ServiceCaller
from ..operations.rate_limits import Limit

if TYPE_CHECKING:
    from .base import ApiViewSet

SCHEME = "Bearer"
KEY_PREFIX = "whk_"


class ApiKeyAuthentication(BaseAuthentication):
    """Authenticate ``Authorization: Bearer <API_KEY>``; ``request.auth`` is the key, ``request.user`` its principal."""

    def authenticate(self, request: Request) -> tuple[ApiKeyPrincipal, ApiKey] | None:
        scheme, _, text = request.headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != SCHEME.lower():
            if KEY_PREFIX in f"{scheme} {text}":
                raise AuthenticationFailed(f"Send the API key as `Authorization: {SCHEME} <key>`.")
            return None
        # Duplicate headers are joined by a comma, which no key contains.
        api_key = ApiKey.objects.find(text.strip())
        if api_key is None:
            raise AuthenticationFailed("The API key is not valid.")
        api_key.touch()
        return ApiKeyPrincipal(api_key), api_key

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


def other_authenticators() -> list[BaseAuthentication]:
    """Return those that the host accepts beside the key. Raise ValueError for an entry that is none."""
    return [_AUTHENTICATION.one(path) for path in settings.API_AUTHENTICATION]


_AUTHENTICATION = Implementations(BaseAuthentication, {})


class ApiKeyPrincipal:
    """``request.user`` of a request with an API key: the key itself, neither a user nor its owner.

    It has the attributes of users that Django and its middleware read, and no permissions.
    """

    is_authenticated: ClassVar[bool] = True
    is_active: ClassVar[bool] = True
    is_anonymous: ClassVar[bool] = False
    is_staff: ClassVar[bool] = False
    is_superuser: ClassVar[bool] = False

    def __init__(self, api_key: ApiKey) -> None:
        self.api_key = api_key

    @property
    def pk(self) -> str:
        return self.api_key.pk

    @property
    def owner(self) -> Any:
        return self.api_key.owner

    def get_username(self) -> str:
        return f"whk_{self.api_key.prefix}"

    def __str__(self) -> str:
        return self.get_username()

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return False

    def has_perms(self, perm_list: Any, obj: Any = None) -> bool:
        return False

    def has_module_perms(self, app_label: str) -> bool:
        return False


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


class ApiThrottle(BaseThrottle):
    """At most ``WEBHOOKS_API_RATE`` requests with one API key; no limit while the cache is unavailable.

    It protects the service from a single caller. Tests and verifications have their own limits, which also hold while
    the cache is unavailable.
    """

    name = "requests"

    @property
    def rate(self) -> str:
        return str(settings.API_RATE)

    def allow_request(self, request: Request, view: Any) -> bool:
        """Return True. Raise RateLimitedError, whose answer names the limit."""
        caller = request.auth.pk if isinstance(request.auth, ApiKey) else f"user_{request.user.pk}"
        with suppress(LimitsUnavailableError):  # already logged
            Limit(name=self.name, subject=caller, rate=self.rate).require()
        return True
