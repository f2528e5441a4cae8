"""Errors of operations, shown on the form whose save they refused."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ..exceptions import WebhooksError

REFUSALS = (ValidationError, WebhooksError)
"""Errors of refused operations. Django handles missing permissions."""

_ATTRIBUTE = "_webhooks_refusal"


class RefusableForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that shows the refusal of an operation on valid input."""

    refusal: ValidationError | None = None

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.refusal is not None:
            self.add_error(None, self.refusal)
        return cleaned


def as_form_error(error: Exception) -> ValidationError:
    return error if isinstance(error, ValidationError) else ValidationError(str(error))


def refuse(request: HttpRequest, error: Exception) -> None:
    """Store an operation's error for the form, which shows it when the request is processed again."""
    setattr(request, _ATTRIBUTE, as_form_error(error))


def refusal_of(request: HttpRequest) -> ValidationError | None:
    return getattr(request, _ATTRIBUTE, None)
