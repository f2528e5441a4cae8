"""System checks with stable ids, listed in ``docs/checks.md``."""

from __future__ import annotations

from . import environment, settings, tables, wake

__all__ = ["environment", "settings", "tables", "wake"]
