"""System checks with stable ids; ``docs/checks.md`` lists them."""

from __future__ import annotations

from . import deployment, owners, secrets, settings, surroundings, wake

__all__ = ["deployment", "owners", "secrets", "settings", "surroundings", "wake"]
