"""The rate limit of requests with one API key."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from ..conf import settings
from ..exceptions import LimitsUnavailableError
from ..models import ApiKey
from ..operations.rate_limits import Limit


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
        """Return True. Raises RateLimitedError, whose answer names the limit."""
        caller = request.auth.pk if isinstance(request.auth, ApiKey) else f"user_{request.user.pk}"
        with suppress(LimitsUnavailableError):  # already logged
            Limit(name=self.name, subject=caller, rate=self.rate).require()
        return True
