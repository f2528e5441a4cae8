"""Finding the account that a command line names."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError


def find_account(username: str) -> Any | None:
    """Return the account with this name, in whatever field the project's accounts are named by."""
    accounts = get_user_model()
    try:
        return accounts._default_manager.get_by_natural_key(username)
    except accounts.DoesNotExist:
        return None


def get_account(username: str, hint: str = "") -> Any:
    """Return the account with this name. Raises CommandError, with the hint, if there is none."""
    account = find_account(username)
    if account is None:
        field = get_user_model().USERNAME_FIELD
        raise CommandError(f"There is no account with the {field} {username!r}. {hint}".rstrip())
    return account
