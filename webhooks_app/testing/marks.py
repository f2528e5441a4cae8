"""The marks of an event, its idempotency key and its references, for assertions of the test kit."""

from __future__ import annotations

from collections.abc import Sequence

from ..models import Event, IdempotencyKey


def has_marks(event: Event, idempotency_key: str | None, references: Sequence[str]) -> bool:
    """Return True if an event has this key, unless it is None, and at least these references."""
    has_key = idempotency_key is None or _key_of(event) == idempotency_key
    return has_key and (not references or set(references) <= set(_references_of(event)))


def marks_of(event: Event) -> str:
    """Return the marks of an event in parentheses; "" without any."""
    return described(_key_of(event), _references_of(event))


def described(idempotency_key: str | None, references: Sequence[str]) -> str:
    parts = [f"idempotency key {idempotency_key}"] if idempotency_key is not None else []
    parts += [f"references {', '.join(references)}"] if references else []
    return f" ({'; '.join(parts)})" if parts else ""


def _key_of(event: Event) -> str | None:
    found = IdempotencyKey.objects.filter(event=event).first()
    return found.key if found else None


def _references_of(event: Event) -> list[str]:
    return list(event.references.order_by("value").values_list("value", flat=True))
