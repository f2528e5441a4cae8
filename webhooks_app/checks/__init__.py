"""System checks with stable ids, listed in ``docs/checks.md``."""

from __future__ import annotations

from . import settings, surroundings, tables, wake

__all__ = ["settings", "surroundings", "tables", "wake"]
