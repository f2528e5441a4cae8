"""Signature schemes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from ..extensions import load_class
from .base import BaseSignature
from .native import NativeSignature
from .standard import StandardEd25519Signature, StandardSignature

BUILT_IN: Mapping[str, type[BaseSignature]] = MappingProxyType(
    {scheme.name: scheme for scheme in (NativeSignature, StandardSignature, StandardEd25519Signature)}
)


@lru_cache(maxsize=32)
def make_signatures(names: Sequence[str]) -> Mapping[str, BaseSignature]:
    """Return the schemes with these names. ``names`` is a tuple of built-in names and dotted paths.

    Raises ValueError if a name doesn't belong to a BaseSignature.
    """
    classes = [load_class(name, BaseSignature, BUILT_IN) for name in names]  # type: ignore[type-abstract]
    return MappingProxyType({found.name: found() for found in classes})
