"""``WEBHOOKS_*`` settings from environment variables of the same names."""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping
from typing import Any, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic import TypeAdapter, ValidationError

from webhooks_app.conf import setting_types


def webhooks_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the environment, converted to their types.

    Lists are separated by commas, and so are the ``name=value`` pairs of mappings. An empty value means an empty list
    or mapping. Raises ImproperlyConfigured for an invalid value.
    """
    return {name: _read(name, hint, environment[name]) for name, hint in setting_types().items() if name in environment}


def _read(name: str, hint: Any, text: str) -> Any:
    value: Any = text
    if get_origin(hint) in (collections.abc.Sequence, list, tuple):
        value = _items(text)
    elif get_origin(hint) is collections.abc.Mapping:
        value = {name.strip(): each.strip() for name, _, each in (item.partition("=") for item in _items(text))}
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise ImproperlyConfigured(f"The environment variable {name} cannot be read: {reason}.") from None


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
