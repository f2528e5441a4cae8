"""Filter operators by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from ..extensions import load_class
from .base import BaseOperator
from .operators import BUILT_IN


@lru_cache(maxsize=32)
def make_operators(names: Sequence[str]) -> Mapping[str, BaseOperator]:
    """Return the operators with these names. ``names`` is a tuple of built-in names and dotted paths.

    Raises ValueError if a name does not lead to a BaseOperator.
    """
    classes = [load_class(name, BaseOperator, BUILT_IN) for name in names]  # type: ignore[type-abstract]
    return MappingProxyType({found.name: found() for found in classes})
