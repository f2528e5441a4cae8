"""Retry policies: how often a delivery is tried, and when."""

from .base import BaseRetryPolicy
from .fixed import MAX_LENGTH, FixedPolicy, name_in, pack_policy, unpack_policy
from .policies import DelaysPolicy, ExtendedPolicy, SpecificationPolicy
from .registry import BUILT_IN, make_policies
from .retry_after import parse_retry_after

__all__ = [
    "BUILT_IN",
    "MAX_LENGTH",
    "BaseRetryPolicy",
    "DelaysPolicy",
    "ExtendedPolicy",
    "FixedPolicy",
    "SpecificationPolicy",
    "make_policies",
    "name_in",
    "pack_policy",
    "parse_retry_after",
    "unpack_policy",
]
