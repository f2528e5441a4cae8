"""Form fields for secrets. Django logs the repr of values that a template looks into, so it is masked."""

from __future__ import annotations

from typing import Any

from django import forms

from ..encryption import Masked


class MaskedField(forms.CharField):
    """A field for a text that contains secrets."""

    def to_python(self, value: Any) -> str:
        return Masked(super().to_python(value))

    def bound_data(self, data: Any, initial: Any) -> Any:
        return Masked(data) if isinstance(data, str) else data


class SecretField(MaskedField):
    """A field for a secret. A form with errors does not show it again."""

    def bound_data(self, data: Any, initial: Any) -> None:
        return None
