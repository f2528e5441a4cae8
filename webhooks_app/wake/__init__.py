"""Waking workers after a commit: one class for each method, chosen by ``WEBHOOKS_WAKE``."""

from __future__ import annotations

from .background import deliver_in_background, deliver_until_idle
from .base import BaseMessageWake, BaseWake
from .registry import configured_wake as configured_wake
from .silence import waking_workers

__all__ = [
    "BaseMessageWake",
    "BaseWake",
    "deliver_in_background",
    "deliver_until_idle",
    "waking_workers",
]
