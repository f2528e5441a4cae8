"""Send webhooks from a Django project: signed, retried, at least once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .emission import aemit as aemit
    from .emission import emit as emit
    from .emission import emit_on as emit_on
    from .emission import send_test_event as send_test_event
    from .event_types import EventType as EventType
    from .event_types import registry
    from .registration import register_webhook as register_webhook

__version__ = "0.1.0"

# Models may not be imported before the apps are loaded, so these names are looked up at first use (PEP 562).
_LAZY_NAMES = {
    "EventType": ("event_types", "EventType"),
    "aemit": ("emission", "aemit"),
    "emit": ("emission", "emit"),
    "emit_on": ("emission", "emit_on"),
    "registry": ("event_types", "registry"),
    "register_webhook": ("registration", "register_webhook"),
    "send_test_event": ("emission", "send_test_event"),
}

__all__ = [
    "EventType",
    "__version__",
    "aemit",
    "emit",
    "emit_on",
    "register_webhook",
    "registry",
    "send_test_event",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _LAZY_NAMES[name]
    return getattr(import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_NAMES})
