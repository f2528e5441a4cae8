"""How often a key may ask."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from ..conf import settings
from ..exceptions import LimitsUnavailableError
from ..models import ApiKey
from ..rate_limits import Limit


class ApiThrottle(BaseThrottle):
    """At most ``WEBHOOKS_API_RATE`` requests with one API key; any number while the cache cannot count them.

    It keeps one caller from using up what all share. What a cache that fails must not open, tests and verifications,
    has limits of its own.
    """

    wait_seconds = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:
        caller = request.auth.pk if isinstance(request.auth, ApiKey) else f"user_{request.user.pk}"
        try:
            self.wait_seconds = Limit(name="requests", subject=caller, rate=settings.API_RATE).take()
        except LimitsUnavailableError:  # It is in the log already.
            return True
        return not self.wait_seconds

    def wait(self) -> float:
        """Return the seconds after which the next request is let through."""
        return self.wait_seconds
