"""Event data from the command line, a file or standard input."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from .json_arguments import read_json

HELP = "The event's data: a JSON object, @FILE to read it from a file, or - to read it from standard input."


def read_event_data(argument: str) -> dict[str, Any]:
    """Return the JSON object of a ``--data`` argument. Raises CommandError."""
    data, source = read_json(argument, noun="The data", hint="Quote it for your shell: --data '{\"key\": 1}'")
    if not isinstance(data, dict):
        raise CommandError(f'{source} is not a JSON object. The data of an event must be one, such as {{"key": 1}}.')
    return data
