"""Retry policies: how often a delivery is attempted, and when."""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import ClassVar

from .implementations import MAX_CHOICE_NAME_LENGTH, Implementations

__all__ = [
    "BaseRetryPolicy",
    "DelaysPolicy",
    "ExtendedPolicy",
    "SpecificationPolicy",
    "parse_retry_after",
]

MAX_ATTEMPTS = 100
"""Maximum number of attempts of every policy."""
MAX_DELAY = timedelta(days=30)
MAX_PACKED_LENGTH = 300
"""Maximum length of a policy as stored in deliveries."""


class BaseRetryPolicy(abc.ABC):
    """A retry policy. Instances hold no state.

    A delivery keeps the number of attempts and the delays with which it was queued.
    """

    name: str
    label: str = ""
    """What pages call the policy; if it is empty, its name."""
    description: str = ""
    max_attempts: int
    jitter: float = 0.0
    """Largest random extension of a delay, as a fraction of it."""
    max_retry_after: timedelta = timedelta(0)
    """Largest delay that a receiver can request by Retry-After; zero ignores the header."""

    @abc.abstractmethod
    def delay(self, number: int) -> timedelta:
        """Return the shortest delay between the end of failed attempt ``number`` (from 1) and the next attempt."""

    def next_attempt_at(
        self, number: int, failed_at: datetime, *, retry_after: timedelta | None = None
    ) -> datetime | None:
        """Return the time of the attempt after failed attempt ``number`` (from 1); None after the last.

        ``retry_after`` is the delay requested by the receiver. It never shortens a delay.
        """
        if number < 1:
            raise ValueError(f"Attempts are counted from 1; there is no attempt {number}.")
        if number >= self.max_attempts:
            return None
        delay = self.delay(number)
        if self.jitter:
            delay += delay * self.jitter * random.random()  # noqa: S311 - spreads load, protects nothing
        if retry_after is not None:
            delay = max(delay, min(retry_after, self.max_retry_after))
        return failed_at + delay

    @property
    def delays(self) -> tuple[timedelta, ...]:
        """The shortest delay before each retry."""
        return tuple(self.delay(number) for number in range(1, self.max_attempts))

    @property
    def schedule(self) -> str:
        """The delays in seconds, as text."""
        return ",".join(f"{delay.total_seconds():.3f}".rstrip("0").rstrip(".") for delay in self.delays)

    @property
    def span(self) -> timedelta:
        """Shortest time between the first failure and giving up a delivery."""
        return sum(self.delays, timedelta(0))

    def problem(self) -> str:
        """Return the reason why the policy is unusable; "" if it is usable."""
        if not 1 <= len(self.name) <= MAX_CHOICE_NAME_LENGTH or ":" in self.name:
            return f"has the name {self.name!r}; give 1 to {MAX_CHOICE_NAME_LENGTH} characters without a colon"
        if not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            return f"makes {self.max_attempts} attempts; 1 to {MAX_ATTEMPTS} are possible"
        if any(not timedelta(0) <= delay <= MAX_DELAY for delay in self.delays):
            return "has a delay that is negative or longer than 30 days"
        if not 0 <= self.jitter <= 1:
            return f"has a jitter of {self.jitter}; 0 to 1 is possible"
        if not timedelta(0) <= self.max_retry_after <= MAX_DELAY:
            return "has a max_retry_after that is negative or longer than 30 days"
        if len(f"{self.name}:{self.schedule}") > MAX_PACKED_LENGTH:
            return f"has delays that need more than {MAX_PACKED_LENGTH} characters; use fewer, or whole seconds"
        return ""


class DelaysPolicy(BaseRetryPolicy):
    """A list of delays: one more attempt than delays."""

    delays_seconds: ClassVar[Sequence[float]] = ()

    @property
    def max_attempts(self) -> int:  # type: ignore[override]
        return 1 + len(self.delays_seconds)

    def delay(self, number: int) -> timedelta:
        return timedelta(seconds=self.delays_seconds[number - 1])


class SpecificationPolicy(DelaysPolicy):
    """The default: at most 3 retries, after 1, 5 and 30 seconds."""

    name = "specification"
    label = "Quick retries"
    description = "4 attempts: after 1, 5 and 30 seconds."
    delays_seconds = (1, 5, 30)


class ExtendedPolicy(DelaysPolicy):
    """The schedule that Standard Webhooks recommends, with jitter: 10 attempts in about three days."""

    name = "extended"
    label = "Retries for three days"
    description = "10 attempts in about three days: after 5 s, 5 min, 30 min, 2, 5, 10, 14, 20 and 24 h."
    delays_seconds = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
    jitter = 0.1
    max_retry_after = timedelta(days=1)


RETRY_POLICIES: Implementations[BaseRetryPolicy] = Implementations(
    BaseRetryPolicy,  # type: ignore[type-abstract]
    {policy.name: policy for policy in (SpecificationPolicy, ExtendedPolicy)},
    find_problem=lambda policy: _problem_of(policy()),
)


def _problem_of(policy: BaseRetryPolicy) -> str:
    problem = policy.problem()
    return f"{policy.name} {problem}" if problem else ""


class FixedPolicy(BaseRetryPolicy):
    """The delays of a policy of the host, fixed when a delivery was queued.

    Deliveries keep their policy even if the host's code or settings change later.
    """

    def __init__(self, stored: str, current: BaseRetryPolicy | None) -> None:
        self.name, _, delays = stored.partition(":")
        self._delays = [timedelta(seconds=float(text)) for text in delays.split(",") if text]
        self.max_attempts = 1 + len(self._delays)
        if current is not None:
            self.jitter, self.max_retry_after = current.jitter, current.max_retry_after
            self.label = current.label

    def delay(self, number: int) -> timedelta:
        return self._delays[number - 1]


@lru_cache(maxsize=256)
def pack_policy(policy: BaseRetryPolicy) -> str:
    """Return a policy as text: "" for ``specification``, another built-in name, or a name with the delays.

    Delays that are too long are left out; the system checks refuse such a policy.
    """
    packed = f"{policy.name}:{policy.schedule}"
    if RETRY_POLICIES.built_in.get(policy.name) is not type(policy) and len(packed) <= MAX_PACKED_LENGTH:
        return packed
    return "" if policy.name == SpecificationPolicy.name else policy.name


@lru_cache(maxsize=256)
def unpack_policy(stored: str, current: BaseRetryPolicy | None) -> BaseRetryPolicy | None:
    """Return the policy for a text: ``current``, which has this name now, if its delays are the same.

    Returns None for a name without delays that has no policy any more, and for a text that is not a policy's.
    """
    if current is not None and pack_policy(current) == stored:
        return current
    if ":" not in stored:
        return current
    try:
        fixed = FixedPolicy(stored, current)
        return None if fixed.problem() else fixed
    except (OverflowError, ValueError):
        return None


def name_in(stored: str) -> str:
    """Return the name of the policy in a result of ``pack_policy``."""
    return stored.partition(":")[0] or SpecificationPolicy.name


MAX_DIGITS = 9
"""Maximum length of a number of seconds that is read from Retry-After."""


def parse_retry_after(value: str, now: datetime) -> timedelta | None:
    """Return the delay that the header Retry-After requests (RFC 9110, 10.2.3).

    Returns None for a value that is missing, malformed or in the past.
    """
    text = value.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text)) if len(text) <= MAX_DIGITS else timedelta(seconds=10**MAX_DIGITS)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment - now if moment > now else None
