"""Retry policies by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from ..extensions import load_class
from .policies import BaseRetryPolicy, ExtendedPolicy, SpecificationPolicy

BUILT_IN: Mapping[str, type[BaseRetryPolicy]] = MappingProxyType(
    {policy.name: policy for policy in (SpecificationPolicy, ExtendedPolicy)}
)


@lru_cache(maxsize=32)
def make_policies(names: Sequence[str]) -> Mapping[str, BaseRetryPolicy]:
    """Return the policies with these names. ``names`` is a tuple of built-in names and dotted paths.

    Raises ValueError if a name doesn't belong to a BaseRetryPolicy.
    """
    classes = [load_class(name, BaseRetryPolicy, BUILT_IN) for name in names]  # type: ignore[type-abstract]
    return MappingProxyType({found.name: found() for found in classes})
