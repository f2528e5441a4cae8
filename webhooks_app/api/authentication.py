"""API keys in the Authorization header."""

from __future__ import annotations

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from ..models import ApiKey
from .principal import ApiKeyPrincipal

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
