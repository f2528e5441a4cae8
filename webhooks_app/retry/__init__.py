"""Retry policies: the number of a delivery's attempts, and their times."""

from .base import BaseRetryPolicy
from .policies import DelaysPolicy, ExtendedPolicy, SpecificationPolicy
from .registry import BUILT_IN as BUILT_IN
from .registry import make_policies as make_policies
from .retry_after import parse_retry_after

__all__ = [
    "BaseRetryPolicy",
    "DelaysPolicy",
    "ExtendedPolicy",
    "SpecificationPolicy",
    "parse_retry_after",
]
