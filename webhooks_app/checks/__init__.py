"""System checks with stable ids, listed in ``docs/checks.md``."""

from __future__ import annotations

from . import deployment, owners, secrets, settings, surroundings, wake

__all__ = ["deployment", "owners", "secrets", "settings", "surroundings", "wake"]
