"""Waking workers after a commit: one class for each method, chosen by ``WEBHOOKS_WAKE``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import BaseWake, waking_workers
from .base import configured_wake as configured_wake
from .messages import BaseMessageWake

if TYPE_CHECKING:
    from .engine_thread import deliver_in_background as deliver_in_background
    from .engine_thread import deliver_until_idle as deliver_until_idle

__all__ = [
    "BaseMessageWake",
    "BaseWake",
    "deliver_in_background",
    "deliver_until_idle",
    "waking_workers",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A process that delivers nothing does not need the engine.
    from . import engine_thread  # noqa: PLC0415

    return getattr(engine_thread, name)
