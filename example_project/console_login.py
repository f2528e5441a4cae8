"""The login of the console's first user."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.contrib.auth import get_user_model

USERNAME = "admin"
PASSWORD_FILE = "admin-password"  # noqa: S105 - a file's name


def ensure_login(directory: Path, given_password: str = "") -> tuple[str, Path | None]:
    """Make the user ``admin``, or let it in again; return the password, and the file that keeps it.

    A given password is kept nowhere. Otherwise the one in the file is used, or a new one is written there, for its
    owner's eyes only.
    """
    path = None if given_password else directory / PASSWORD_FILE
    password = given_password or _kept_password(directory / PASSWORD_FILE)
    user, _ = get_user_model().objects.get_or_create(
        username=USERNAME, defaults={"is_staff": True, "is_superuser": True}
    )
    if not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    return password, path


def _kept_password(path: Path) -> str:
    if path.exists():
        return path.read_text().strip()
    password = secrets.token_urlsafe(12)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(f"{password}\n")
    return password
