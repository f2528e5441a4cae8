"""The policies that deliveries keep, even if the host's code or settings change after they were queued."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

from .policies import MAX_LENGTH, BaseRetryPolicy, SpecificationPolicy
from .registry import BUILT_IN


class FixedPolicy(BaseRetryPolicy):
    """The delays of a policy of the host, fixed when a delivery was queued."""

    def __init__(self, stored: str, current: BaseRetryPolicy | None) -> None:
        self.name, _, delays = stored.partition(":")
        self._delays = [timedelta(seconds=float(text)) for text in delays.split(",") if text]
        self.max_attempts = 1 + len(self._delays)
        if current is not None:
            self.jitter, self.max_retry_after = current.jitter, current.max_retry_after

    def delay(self, number: int) -> timedelta:
        return self._delays[number - 1]


@lru_cache(maxsize=256)
def pack_policy(policy: BaseRetryPolicy) -> str:
    """Return a policy as text: "" for ``specification``, another built-in name, or a name with the delays.

    Delays that are too long are left out; the system checks refuse such a policy.
    """
    packed = f"{policy.name}:{policy.schedule}"
    if BUILT_IN.get(policy.name) is not type(policy) and len(packed) <= MAX_LENGTH:
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
