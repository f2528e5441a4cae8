"""System checks with stable ids; ``docs/checks.md`` lists them."""

from __future__ import annotations

from . import deployment, secrets, settings, surroundings

__all__ = ["deployment", "secrets", "settings", "surroundings"]
