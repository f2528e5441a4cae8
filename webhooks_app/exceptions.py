"""The exceptions of webhooks_app.

WebhooksError
├── UnknownEventTypeError      (also LookupError)   an event type that is not in the catalogue
│   └── UnregisteredEventTypeError                  an event type object that is not in the catalogue
├── InvalidEventTypeError      (also ValueError)    an event type that cannot be created or registered
├── InvalidEventDataError      (also ValueError)    data that does not fit its event type, or is not JSON
├── InvalidOwnerError          (also ValueError)    an owner that is not a saved account
├── InvalidBatchError          (also ValueError)    some of the events of ``emit_many`` are invalid
├── InvalidCatalogueError      (also ValueError)    a file that is not an event catalogue
├── IdempotencyConflictError   (also ValueError)    an idempotency key that belongs to another event
├── InvalidFilterError         (also ValueError)    a filter that cannot be parsed, or can match nothing
├── FilterBudgetError                               a filter that takes more steps than it may
├── InvalidEndpointError       (also ValueError)    a URL that webhooks must not be sent to
├── WebhookStateError                               an operation that the webhook's state does not allow
│   └── AlreadyInStateError                         an operation whose result is the current state
├── RateLimitedError                                an exceeded rate limit
├── LimitsUnavailableError                          a cache that cannot count requests
├── SecretUnreadableError                           a stored secret that no encryption key decrypts
└── SchemeUnavailableError                          a signature scheme that is no longer configured

WebhookVerificationError (a ValueError) belongs to the receiver, which has no other error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from .reasons import ReasonText
from .receiver.schemes import WebhookVerificationError

__all__ = [
    "AlreadyInStateError",
    "FilterBudgetError",
    "IdempotencyConflictError",
    "InvalidBatchError",
    "InvalidCatalogueError",
    "InvalidEndpointError",
    "InvalidEventDataError",
    "InvalidEventTypeError",
    "InvalidFilterError",
    "InvalidOwnerError",
    "LimitsUnavailableError",
    "RateLimitedError",
    "SchemeUnavailableError",
    "SecretUnreadableError",
    "UnknownEventTypeError",
    "UnregisteredEventTypeError",
    "WebhookStateError",
    "WebhookVerificationError",
    "WebhooksError",
]

_MAX_SHOWN_ERRORS = 5
"""Maximum number of errors in the message of a batch."""


class WebhooksError(Exception):
    """Base class of all exceptions that this package raises deliberately."""


class UnknownEventTypeError(WebhooksError, LookupError):
    """No event type of this name is registered."""

    def __init__(self, name: object, known: Sequence[str] = ()) -> None:
        self.name = str(name)
        self.known = tuple(known)
        shown = self.name[:100]
        found = repr(shown) if isinstance(name, str) else f"of Python's type {type(name).__name__}; give its name"
        hints = {"name": found}
        code = "event_type_unknown"
        if self.known:
            code, hints["known"] = "event_type_unknown_among", ", ".join(self.known)
        if near := get_close_matches(shown, self.known, n=1):
            code, hints["near"] = "event_type_unknown_near", near[0]
        super().__init__(ReasonText(code, **hints))


class UnregisteredEventTypeError(UnknownEventTypeError):
    """This event type object is not registered, although another object with its name may be."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        super().__init__(name, known)
        state = "is registered with another object" if name in self.known else "is not registered"
        self.args = (f"The event type {name} {state}. Call registry.register() in a module webhook_events.py.",)


class InvalidEventTypeError(WebhooksError, ValueError):
    """An event type cannot be created or registered; the message has the reason."""


class InvalidFilterError(WebhooksError, ValueError):
    """A filter is unusable. ``path`` locates the problem, such as ``amount.$gt``; it is "" for the whole filter."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(ReasonText("filter_invalid", path=path or "filter", problem=problem))


class FilterBudgetError(WebhooksError):
    """The evaluation of a filter exceeds its budget of steps."""

    def __str__(self) -> str:
        return "The evaluation of the filter takes more steps than it may."


class InvalidCatalogueError(WebhooksError, ValueError):
    """A file is not an event catalogue."""


class InvalidEventDataError(WebhooksError, ValueError):
    """The data does not fit its event type, or cannot be sent as JSON.

    ``errors`` maps dotted paths in the data ("" for the whole) to problems.
    """

    def __init__(self, event_type: str, errors: Mapping[str, str]) -> None:
        self.event_type = event_type
        self.errors = dict(errors)
        details = "; ".join(f"{path or 'data'}: {message}" for path, message in self.errors.items())
        super().__init__(f"Invalid data for {event_type}: {details}")


class InvalidOwnerError(WebhooksError, ValueError):
    """The owner of an event is neither a saved account nor None (the platform)."""


class IdempotencyConflictError(WebhooksError, ValueError):
    """The idempotency key belongs to an event with other content.

    ``event_id`` is that event, and ``differences`` are the arguments of ``emit`` that differ, such as ``references``.
    """

    def __init__(self, key: str, event_id: str, differences: Sequence[str]) -> None:
        self.key = key
        self.event_id = event_id
        self.differences = tuple(differences)
        names = ", ".join(self.differences)
        super().__init__(
            f"The idempotency key {key[:100]!r} was used for {event_id}, with other values of: {names}. Repeat the "
            "first values, or use another key."
        )


class InvalidBatchError(WebhooksError, ValueError):
    """Some of the events are invalid, so none was emitted; ``errors`` maps the index of each to its error."""

    def __init__(self, errors: Mapping[int, WebhooksError]) -> None:
        self.errors = dict(errors)
        shown = "; ".join(f"[{index}] {error}" for index, error in list(self.errors.items())[:_MAX_SHOWN_ERRORS])
        more = len(self.errors) - _MAX_SHOWN_ERRORS
        super().__init__(f"No event was emitted. {shown}{f'; and {more} more' if more > 0 else ''}")


class InvalidEndpointError(WebhooksError, ValueError):
    """The URL is not allowed as an endpoint; ``rule`` is the short name of the violated rule.

    ``suggestion`` is the URL to use instead, or "" if there is no single one.
    """

    def __init__(self, rule: str, message: str, *, suggestion: str = "") -> None:
        self.rule, self.suggestion = rule, suggestion
        super().__init__(message)


class WebhookStateError(WebhooksError):
    """The webhook's state does not allow the operation; the message names the state and the remedy."""


class AlreadyInStateError(WebhookStateError):
    """The webhook or problem is already in the requested state; nothing was changed."""


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
        counted: str = ReasonText("counted_probes"),
    ) -> None:
        self.wait_seconds = wait_seconds
        self.limit = limit
        self.rate = rate
        code = "too_many_at_most" if rate else "too_many"
        super().__init__(ReasonText(code, counted=counted, rate=rate, seconds=math.ceil(wait_seconds)))


class LimitsUnavailableError(WebhooksError):
    """The cache for rate limits is unavailable; operations with a limit are refused meanwhile."""

    def __init__(self) -> None:
        super().__init__(ReasonText("limits_unavailable"))


class SecretUnreadableError(WebhooksError):
    """A stored secret cannot be decrypted with any of the configured encryption keys."""


class SchemeUnavailableError(WebhooksError):
    """A webhook has a signature scheme that is no longer configured."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(ReasonText("scheme_unavailable", name=name))
