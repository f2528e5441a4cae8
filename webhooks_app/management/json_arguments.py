"""JSON from a command-line argument, a file or standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

HELP = "The event's data: a JSON object, @FILE to read it from a file, or - to read it from standard input."


def read_json(argument: str, *, noun: str, hint: str = "") -> tuple[Any, str]:
    """Return the value of ``JSON``, ``@FILE`` or ``-``, and a noun phrase for its source. Raises CommandError."""
    text, source = _text_of(argument, noun)
    try:
        return json.loads(text), source
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source} is not JSON: {error}.{f' {hint}' if hint else ''}") from None


def _text_of(argument: str, noun: str) -> tuple[str, str]:
    if argument == "-":
        return sys.stdin.read(), "Standard input"
    if not argument.startswith("@"):
        return argument, noun
    path = Path(argument[1:])
    try:
        return path.read_text(encoding="utf-8"), f"The file {path}"
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"The file {path} cannot be read: {error}") from None


def read_event_data(argument: str) -> dict[str, Any]:
    """Return the JSON object of a ``--data`` argument. Raises CommandError."""
    data, source = read_json(argument, noun="The data", hint="Quote it for your shell: --data '{\"key\": 1}'")
    if not isinstance(data, dict):
        raise CommandError(f'{source} is not a JSON object. The data of an event must be one, such as {{"key": 1}}.')
    return data
