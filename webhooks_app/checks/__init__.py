"""System checks with stable ids; ``docs/checks.md`` lists them."""

from __future__ import annotations

from . import deployment, settings, surroundings

__all__ = ["deployment", "settings", "surroundings"]
