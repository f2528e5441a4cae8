"""How often what may be asked for, at the rates of the settings."""

from __future__ import annotations

import hashlib
from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from ..conf import settings
from ..egress import check_endpoint
from ..exceptions import InvalidEndpointError
from ..models import ApiKey, Webhook


class SettingThrottle(SimpleRateThrottle):
    """A throttle whose rate is one of our settings, whatever rates the host gives to its own throttles."""

    setting = "API_RATE"
    num_requests: int
    duration: int

    def get_rate(self) -> str | None:
        rate: str | None = getattr(settings, self.setting) or None
        return rate

    def wait(self) -> float:
        """Return the seconds after which the next request is let through."""
        # The newest request comes first; this is the one that must leave the period before another may enter it.
        position = self.num_requests - 1
        if not 0 <= position < len(self.history):
            return float(self.duration)
        return float(self.duration - (self.now - self.history[position]))


class ApiThrottle(SettingThrottle):
    """At most ``WEBHOOKS_API_RATE`` requests with one API key."""

    def get_cache_key(self, request: Request, view: Any) -> str:
        caller = request.auth.pk if isinstance(request.auth, ApiKey) else f"user_{request.user.pk}"
        return f"webhooks_app.api.requests.{caller}"


class WebhookThrottle(SettingThrottle):
    """At most so many requests on behalf of one webhook. Which webhook it is, a view knows once it has found it."""

    name = ""

    def __init__(self, webhook: Webhook) -> None:
        super().__init__()
        self.webhook = webhook

    def get_cache_key(self, request: Request, view: Any) -> str:
        # A digest, because no cache backend takes every host name as a part of a key.
        return f"webhooks_app.api.{self.name}.{hashlib.sha256(self.subject().encode()).hexdigest()}"

    def subject(self) -> str:
        return self.webhook.id


class EventTestThrottle(WebhookThrottle):
    """At most ``WEBHOOKS_TEST_RATE`` test events for one webhook."""

    setting = "TEST_RATE"
    name = "tests"


class VerificationThrottle(WebhookThrottle):
    """At most ``WEBHOOKS_VERIFICATION_RATE`` verifications of one webhook, whatever it was that started them."""

    setting = "VERIFICATION_RATE"
    name = "verifications"


class OwnerThrottle(WebhookThrottle):
    """At most ``WEBHOOKS_API_RATE`` requests that make us call a URL, for one owner, however many keys there are."""

    name = "owner"

    def subject(self) -> str:
        return str(self.webhook.owner_id)


class HostThrottle(WebhookThrottle):
    """At most ``WEBHOOKS_API_RATE`` tests and verifications towards one host, whoever asks for them."""

    name = "host"

    def subject(self) -> str:
        try:
            return check_endpoint(self.webhook.url).host
        except InvalidEndpointError:
            # Nothing will be sent there, so there is no host to protect.
            return self.webhook.id
