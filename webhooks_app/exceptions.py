"""What webhooks_app raises.

WebhooksError
├── UnknownEventTypeError      (also LookupError)   a type that no catalogue entry describes
├── InvalidEventTypeError      (also ValueError)    an event type that cannot be made or registered
├── InvalidEventDataError      (also ValueError)    data that does not fit its event type, or is not JSON
├── InvalidOwnerError          (also ValueError)    an owner that is not a saved account
├── InvalidEndpointError       (also ValueError)    a URL that webhooks may not be sent to
├── WebhookStateError                               a verb that the webhook's state does not allow
├── RateLimitedError                                something was asked for too often
├── LimitsUnavailableError                          the cache cannot count how often something was asked for
├── SecretUnreadableError                           a stored secret that no encryption key opens
└── WebhookVerificationError   (also ValueError)    a received request that is not a genuine webhook
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches


class WebhooksError(Exception):
    """Base of every error that this package raises on purpose."""


class UnknownEventTypeError(WebhooksError, LookupError):
    """No event type of this name is registered."""

    def __init__(self, name: object, known: Sequence[str] = ()) -> None:
        self.name = str(name)
        self.known = tuple(known)
        shown = self.name[:100]
        found = repr(shown) if isinstance(name, str) else f"of Python's type {type(name).__name__}; give its name"
        near = get_close_matches(shown, self.known, n=1)
        suggestion = f" Did you mean {near[0]}?" if near else ""
        hint = f" Known types: {', '.join(self.known)}." if self.known else ""
        super().__init__(f"Unknown event type {found}.{suggestion}{hint}")


class InvalidEventTypeError(WebhooksError, ValueError):
    """An event type cannot be made or cannot be registered; the message says why."""


class InvalidEventDataError(WebhooksError, ValueError):
    """The data does not fit its event type, or cannot be sent as JSON.

    ``errors`` maps a dotted path into the data ("" for the whole) to what is wrong there.
    """

    def __init__(self, event_type: str, errors: Mapping[str, str]) -> None:
        self.event_type = event_type
        self.errors = dict(errors)
        details = "; ".join(f"{path or 'data'}: {message}" for path, message in self.errors.items())
        super().__init__(f"Invalid data for {event_type}: {details}")


class InvalidOwnerError(WebhooksError, ValueError):
    """The owner of an event is neither a saved account nor None (the platform)."""


class InvalidEndpointError(WebhooksError, ValueError):
    """The URL may not be used as an endpoint; ``rule`` is the short name of the rule that refused it."""

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        super().__init__(message)


class WebhookStateError(WebhooksError):
    """The webhook's state does not allow what was asked; the message says which state and what to do."""


class RateLimitedError(WebhooksError):
    """This was asked for too often; ``wait_seconds`` says after how long it may be asked for again."""

    def __init__(self, wait_seconds: float) -> None:
        self.wait_seconds = wait_seconds
        seconds = math.ceil(wait_seconds)
        unit = "second" if seconds == 1 else "seconds"
        super().__init__(f"Too many tests and verifications. Try again in {seconds} {unit}.")


class LimitsUnavailableError(WebhooksError):
    """The cache that rate limits are counted in does not answer; what they guard is refused until it does."""

    def __init__(self) -> None:
        super().__init__("Tests and verifications cannot be counted at the moment, and are refused. Try again later.")


class SecretUnreadableError(WebhooksError):
    """A stored secret cannot be decrypted with any of the configured encryption keys."""


class WebhookVerificationError(WebhooksError, ValueError):
    """A received request is not a genuine, fresh webhook; the message says why."""
