"""Login of the console's first user."""

from __future__ import annotations

from pathlib import Path

from django.contrib.auth import get_user_model

from .kept_secrets import kept_secret

USERNAME = "admin"
PASSWORD_FILE = "admin-password"  # noqa: S105 - a file's name


def ensure_login(directory: Path, given_password: str = "") -> tuple[str, Path | None]:
    """Create or reactivate the user ``admin``. Return the password and the file that stores it.

    A given password is not stored in a file. Otherwise the password comes from the file, or a new one is written there,
    readable only by the file's owner.
    """
    path = None if given_password else directory / PASSWORD_FILE
    password = given_password or kept_secret(directory / PASSWORD_FILE, 12)
    user, _ = get_user_model().objects.get_or_create(
        username=USERNAME, defaults={"is_staff": True, "is_superuser": True}
    )
    if not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    return password, path
