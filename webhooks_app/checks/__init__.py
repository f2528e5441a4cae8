"""System checks with stable ids, listed in ``docs/checks.md``."""

from __future__ import annotations

from . import deployment, settings, surroundings, tables, wake

__all__ = ["deployment", "settings", "surroundings", "tables", "wake"]
