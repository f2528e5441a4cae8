"""Received requests as text for people and as JSON for scripts."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.color import Style

from ..plurals import counted
from ..protocol.times import format_time
from ..receiver.local import Received
from .terminal import printable

MAX_BODY_CHARACTERS = 4000


def as_text(received: Received, style: Style) -> str:
    """Return a headline and the indented data of a request, safe to print on a terminal."""
    clock = received.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    name = style.MIGRATE_HEADING(printable(received.type or "not a webhook"))
    facts = [name, printable(received.event_id), _standing(received, style), _answer(received, style)]
    headline = f"{clock}  {'  '.join(fact for fact in facts if fact)}"
    content = _content(received)
    return "\n".join([headline, *(f"    {line}" for line in content.splitlines())])


def as_json(received: Received) -> str:
    """Return one line of JSON, in ASCII."""
    return json.dumps(
        {
            "received_at": format_time(received.at),
            "path": received.path,
            "type": received.type,
            "id": received.event_id,
            "verified": received.is_verified,
            "problem": received.problem,
            "copy": received.copy,
            "retry": received.is_retry,
            "duplicate": received.is_duplicate,
            "answered": received.status,
            "headers": list(received.headers),
            "body": received.body.decode(errors="replace"),
        }
    )


def _standing(received: Received, style: Style) -> str:
    words = []
    if received.problem:
        words.append(style.ERROR(f"REFUSED: {printable(received.problem)}"))
    elif received.is_verified:
        words.append(style.SUCCESS("valid signature"))
    else:
        words.append("not verified")
    if received.is_duplicate:
        words.append(style.WARNING("DUPLICATE"))
    elif received.is_retry:
        words.append(style.WARNING(f"RETRY {received.copy - 1}"))
    return ", ".join(words)


def _answer(received: Received, style: Style) -> str:
    paint = style.HTTP_SUCCESS if received.status == 200 else style.HTTP_BAD_REQUEST
    return f"answered {paint(str(received.status))}"


def _content(received: Received) -> str:
    """Return the data of a message, or the whole body of any other request, shortened if it is too long."""
    data: Any = received.message.get("data")
    if data is not None and not received.problem:
        text = json.dumps(data, indent=2, ensure_ascii=False)
    else:
        text = received.body.decode(errors="replace")
    shown = text[:MAX_BODY_CHARACTERS]
    left_out = len(text) - len(shown)
    return printable(shown, keep_newlines=True) + (f"\n… and {counted(left_out, 'more character')}" if left_out else "")
