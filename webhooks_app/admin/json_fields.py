"""Form field for JSON that reports hostile input as invalid."""

from __future__ import annotations

import json
from typing import Any

from django import forms

MAX_NESTING = 100
"""Far below the recursion limit of Python: each form with errors decodes and encodes the value again."""


class BoundedDecoder(json.JSONDecoder):
    """Decoder that raises only JSONDecodeError, the one error that Django's field catches."""

    def decode(self, text: str, *args: Any) -> Any:
        try:
            value = super().decode(text, *args)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError:
            raise
        except (ValueError, RecursionError) as error:  # too many digits, nested too deeply, a lone surrogate
            raise json.JSONDecodeError(str(error), "", 0) from None
        if _is_deeper(value, MAX_NESTING):
            raise json.JSONDecodeError("The value is nested too deeply.", "", 0)
        return value


class BoundedJSONField(forms.JSONField):
    def __init__(self, *, decoder: Any = None, **kwargs: Any) -> None:
        super().__init__(decoder=decoder or BoundedDecoder, **kwargs)


def _is_deeper(value: Any, levels: int) -> bool:
    """Return True if arrays and objects are nested more than ``levels`` deep."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)
