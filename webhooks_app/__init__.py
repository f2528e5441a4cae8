"""Send webhooks from a Django project: signed, retried, at least once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .emission import NewEvent as NewEvent
    from .emission import aemit as aemit
    from .emission import aemit_many as aemit_many
    from .emission import emit as emit
    from .emission import emit_many as emit_many
    from .emission import emit_on as emit_on
    from .event_types import EventType as EventType
    from .event_types import registry
    from .models import Event as Event
    from .operations.lifecycle import forget_events as forget_events
    from .operations.lifecycle import forget_owner as forget_owner
    from .operations.registration import register_webhook as register_webhook
    from .operations.sending import send_test_event as send_test_event

__version__ = "0.1.0"

# Models may not be imported before the apps are loaded, so these names are looked up at first use (PEP 562).
_LAZY_NAMES = {
    "Event": ("models", "Event"),
    "EventType": ("event_types", "EventType"),
    "NewEvent": ("emission", "NewEvent"),
    "aemit": ("emission", "aemit"),
    "aemit_many": ("emission", "aemit_many"),
    "emit": ("emission", "emit"),
    "emit_many": ("emission", "emit_many"),
    "emit_on": ("emission", "emit_on"),
    "forget_events": ("operations.lifecycle", "forget_events"),
    "forget_owner": ("operations.lifecycle", "forget_owner"),
    "registry": ("event_types", "registry"),
    "register_webhook": ("operations.registration", "register_webhook"),
    "send_test_event": ("operations.sending", "send_test_event"),
}

__all__ = [
    "Event",
    "EventType",
    "NewEvent",
    "__version__",
    "aemit",
    "aemit_many",
    "emit",
    "emit_many",
    "emit_on",
    "forget_events",
    "forget_owner",
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
