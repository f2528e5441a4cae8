"""Owners in command-line arguments."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from ..owners import owner_model, owners

HELP = "The owner's name, as shown in the console, or its primary key."

MAX_NAMED = 5
MAX_LISTED = 100


def find_owner(text: str) -> Any | None:
    """Return the owner with this name or primary key. Raises CommandError if the name is ambiguous."""
    try:
        found = list(owners().found(text)[: MAX_NAMED + 1])
    except UnicodeEncodeError:  # an argument that is not in UTF-8
        return None
    if len(found) > 1:
        keys = ", ".join(str(owner.pk) for owner in found[:MAX_NAMED])
        raise CommandError(f"Several owners are named {text!r}. Use the primary key: {keys}.")
    return found[0] if found else None


def get_owner(text: str, hint: str = "") -> Any:
    """Return the owner with this name or primary key. Raises CommandError, with the hint, if there is none."""
    owner = find_owner(text)
    if owner is None:
        field, kind = owners().name_field, owner_model()._meta.verbose_name
        lines = [f"No {kind} has the {field} or the primary key {text!r}. {hint}".rstrip(), _how_to_list(field)]
        raise CommandError(" ".join(lines))
    return owner


def _how_to_list(field: str) -> str:
    rows = f"owner_rows().values_list('pk', '{field}')[:{MAX_LISTED}]"
    code = f"from webhooks_app.owners import owner_rows; print(*{rows}, sep='\\n')"
    return f'To see the primary key and the {field} of each: manage.py shell -c "{code}"'
