"""Validation of the owner of a new webhook or API key."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError

from ..exceptions import InvalidOwnerError
from ..owners import owners


def check_owner(owner: Any) -> None:
    """Raise ValidationError if the project's policy refuses the owner; None is the platform."""
    if owner is None:
        return
    try:
        owners().check(owner)
    except InvalidOwnerError as error:
        raise ValidationError(str(error), code="invalid_owner") from None
