"""Retry policies: the number of a delivery's attempts, and their times."""

from .base import BaseRetryPolicy
from .policies import DelaysPolicy, ExtendedPolicy, SpecificationPolicy
from .registry import BUILT_IN, make_policies
from .retry_after import parse_retry_after

__all__ = [
    "BUILT_IN",
    "BaseRetryPolicy",
    "DelaysPolicy",
    "ExtendedPolicy",
    "SpecificationPolicy",
    "make_policies",
    "parse_retry_after",
]
