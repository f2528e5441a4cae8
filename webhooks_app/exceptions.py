"""What webhooks_app raises.

WebhooksError
├── UnknownEventTypeError      (also LookupError)   a type that no catalogue entry describes
│   └── UnregisteredEventTypeError                  an event type object that is not in the catalogue
├── InvalidEventTypeError      (also ValueError)    an event type that cannot be made or registered
├── InvalidEventDataError      (also ValueError)    data that does not fit its event type, or is not JSON
├── InvalidOwnerError          (also ValueError)    an owner that is not a saved account
├── InvalidBatchError          (also ValueError)    some of the events of ``emit_many`` are invalid
├── InvalidCatalogueError      (also ValueError)    a file that is not an event catalogue
├── IdempotencyConflictError   (also ValueError)    an idempotency key that was used for another event
├── InvalidFilterError         (also ValueError)    a filter that cannot be parsed, or can match nothing
├── InvalidEndpointError       (also ValueError)    a URL that webhooks may not be sent to
├── WebhookStateError                               a verb that the webhook's state does not allow
│   └── AlreadyInStateError                         a verb whose result is the state that there is already
├── RateLimitedError                                an exceeded rate limit
├── LimitsUnavailableError                          the cache cannot count how often something was asked for
├── SecretUnreadableError                           a stored secret that no encryption key opens
├── SchemeUnavailableError                          a signature scheme that is no longer configured
└── WebhookVerificationError   (also ValueError)    a received request that is not a genuine webhook
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

MAX_SHOWN_ERRORS = 5
"""The number of errors of a batch that its message lists."""


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


class UnregisteredEventTypeError(UnknownEventTypeError):
    """This event type object is not registered, although another one of its name may be."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        super().__init__(name, known)
        state = "is registered with another object" if name in self.known else "is not registered"
        self.args = (f"The event type {name} {state}. Call registry.register() in a module webhook_events.py.",)


class InvalidEventTypeError(WebhooksError, ValueError):
    """An event type cannot be made or cannot be registered; the message says why."""


class InvalidFilterError(WebhooksError, ValueError):
    """A filter is unusable. ``path`` leads to the problem, such as ``amount.$gt``; it is "" for the whole filter."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path or 'filter'}: {problem}.")


class InvalidCatalogueError(WebhooksError, ValueError):
    """A file is not an event catalogue."""


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


class IdempotencyConflictError(WebhooksError, ValueError):
    """The idempotency key was used for an event with another type or other data; ``event_id`` is that event."""

    def __init__(self, key: str, event_id: str) -> None:
        self.key = key
        self.event_id = event_id
        super().__init__(
            f"The idempotency key {key[:100]!r} was used for {event_id}, whose type or data differs. Use another key."
        )


class InvalidBatchError(WebhooksError, ValueError):
    """Some of the events cannot be emitted, so none was; ``errors`` maps the index of each to its error."""

    def __init__(self, errors: Mapping[int, WebhooksError]) -> None:
        self.errors = dict(errors)
        shown = "; ".join(f"[{index}] {error}" for index, error in list(self.errors.items())[:MAX_SHOWN_ERRORS])
        more = len(self.errors) - MAX_SHOWN_ERRORS
        super().__init__(f"No event was emitted. {shown}{f'; and {more} more' if more > 0 else ''}")


class InvalidEndpointError(WebhooksError, ValueError):
    """The URL may not be used as an endpoint; ``rule`` is the short name of the rule that refused it."""

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        super().__init__(message)


class WebhookStateError(WebhooksError):
    """The webhook's state does not allow what was asked; the message says which state and what to do."""


class AlreadyInStateError(WebhookStateError):
    """The webhook is in the requested state already; nothing was changed."""


class RateLimitedError(WebhooksError):
    """A rate limit is exceeded; ``wait_seconds`` is the time until the next request can be allowed.

    ``limit`` is the name of the limit, ``rate`` its value, and ``counted`` a noun phrase for the counted requests.
    """

    def __init__(
        self,
        wait_seconds: float,
        *,
        limit: str = "probes",
        rate: str = "",
        counted: str = "tests and verifications of one account",
    ) -> None:
        self.wait_seconds = wait_seconds
        self.limit = limit
        self.rate = rate
        seconds = math.ceil(wait_seconds)
        unit = "second" if seconds == 1 else "seconds"
        allowed = f": at most {rate}" if rate else ""
        super().__init__(f"Too many {counted}{allowed}. Try again in {seconds} {unit}.")


class LimitsUnavailableError(WebhooksError):
    """The cache that rate limits are counted in does not answer; what they guard is refused until it does."""

    def __init__(self) -> None:
        super().__init__("Tests and verifications cannot be counted at the moment, and are refused. Try again later.")


class SecretUnreadableError(WebhooksError):
    """A stored secret cannot be decrypted with any of the configured encryption keys."""


class SchemeUnavailableError(WebhooksError):
    """A webhook has a signature scheme that no setting names any more."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"The webhook's signature scheme {name} is not configured. Put it back into WEBHOOKS_SIGNATURES, or choose "
            "another for the webhook."
        )


class WebhookVerificationError(WebhooksError, ValueError):
    """A received request is not a genuine, fresh webhook; the message says why."""
