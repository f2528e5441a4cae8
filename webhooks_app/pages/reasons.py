"""Reasons in the language of the page, and the forms that show why an operation was refused."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext

from ..exceptions import WebhooksError
from ..reasons import ReasonText, shown, template_for

REFUSALS = (ValidationError, WebhooksError)
"""Errors of refused operations. Django handles missing permissions."""

_ATTRIBUTE = "_webhooks_refusal"


def translated(text: str) -> str:
    """Return a reason in the current language, and any other text unchanged."""
    if not isinstance(text, ReasonText):
        return text
    params = {
        name: translated(value) if isinstance(value, str) else shown(value) for name, value in text.params.items()
    }
    return gettext(template_for(text.code, text.params)) % params


class RefusableForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that shows the refusal of an operation on valid input."""

    refusal: ValidationError | None = None

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.refusal is not None:
            self.add_error(None, self.refusal)
        return cleaned

    def _post_clean(self) -> None:
        refused = {name: errors.copy() for name, errors in self.errors.items() if name in self.fields}
        super()._post_clean()  # type: ignore[misc]
        self.errors.update(refused)  # Replace the model's errors on fields that already have their own.

    def add_error(self, field: str | None, error: Any) -> None:
        super().add_error(field, _translated(error) if isinstance(error, ValidationError) else error)


def as_form_error(error: Exception) -> ValidationError:
    """Return a refusal as an error of a form, translated."""
    return _translated(error if isinstance(error, ValidationError) else ValidationError(str(error)))


def _translated(error: ValidationError) -> ValidationError:
    if hasattr(error, "error_dict"):
        return ValidationError({name: list(map(_translated, errors)) for name, errors in error.error_dict.items()})
    found = [(text, each.code) for each in error.error_list for text in each.messages]
    return ValidationError([ValidationError(translated(text), code=code) for text, code in found])


def refuse(request: HttpRequest, error: Exception) -> None:
    """Store an operation's error for the form, which shows it when the request is processed again."""
    setattr(request, _ATTRIBUTE, as_form_error(error))


def refusal_of(request: HttpRequest) -> ValidationError | None:
    return getattr(request, _ATTRIBUTE, None)
