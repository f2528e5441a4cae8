"""Errors of operations on forms: shown with the input, on the form whose save they refused."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ..exceptions import WebhooksError

REFUSALS = (ValidationError, WebhooksError)
"""What an operation raises if it refuses; a missing permission is answered by Django."""

_ATTRIBUTE = "_webhooks_refusal"


class RefusableForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that shows why the operation refused what the form itself found valid."""

    refusal: ValidationError | None = None

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.refusal is not None:
            self.add_error(None, self.refusal)
        return cleaned


def as_form_error(error: Exception) -> ValidationError:
    return error if isinstance(error, ValidationError) else ValidationError(str(error))


def refuse(request: HttpRequest, error: Exception) -> None:
    """Note an operation's error, to be shown by the form when the request is handled once more."""
    setattr(request, _ATTRIBUTE, as_form_error(error))


def refusal_of(request: HttpRequest) -> ValidationError | None:
    return getattr(request, _ATTRIBUTE, None)
