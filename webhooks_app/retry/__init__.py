"""Retry policies: how often a delivery is attempted, and when."""

from .fixed import name_in as name_in
from .fixed import pack_policy as pack_policy
from .fixed import unpack_policy as unpack_policy
from .policies import MAX_LENGTH as MAX_LENGTH
from .policies import BaseRetryPolicy, DelaysPolicy, ExtendedPolicy, SpecificationPolicy
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
