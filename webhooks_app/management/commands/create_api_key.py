"""``manage.py create_api_key``"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import router
from django.utils import timezone

from ...conf import MAX_DAYS
from ...database.sql import writing
from ...models import ApiKey
from ...models.api_key import SERVICE_SCOPES, owner_scopes
from ...operations.api_keys import create_key
from ...owners import owner_model, owners
from ..base import OWNER_HELP, WebhooksCommand, find_owner, get_owner


class Command(WebhooksCommand):
    help = "Create an API key for an owner and print it. It is shown only once: the database has only a hash."

    def add_arguments(self, parser: CommandParser) -> None:
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("owner", nargs="?", help=f"The owner of the key. {OWNER_HELP}")
        whose.add_argument(
            "--service",
            action="store_true",
            help="Create a service key, which emits events for all owners (POST /v1/events).",
        )
        parser.add_argument("--name", default="", help="The purpose of the key, shown in lists. Default: empty.")
        parser.add_argument(
            "--scopes",
            help=f"Scopes separated by commas: {', '.join(owner_scopes())}. Default: all.",
        )
        parser.add_argument(
            "--expires-days", type=int, metavar="N", help="Expire the key after this many days. Default: never."
        )
        parser.add_argument(
            "--create-user",
            action="store_true",
            help="Create the user without a password if it does not exist.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        is_service = options["service"]
        if is_service and options["scopes"]:
            raise CommandError("A service key has only the scope events:emit. Remove --scopes.")
        if is_service and options["create_user"]:
            raise CommandError("A service key has no owner. Remove --create-user.")
        scopes = sorted(SERVICE_SCOPES) if is_service else _scopes(options["scopes"])
        expires_at = _expiry(options["expires_days"])
        with writing(router.db_for_write(ApiKey), ApiKey):
            owner = None if is_service else self._owner(options["owner"], create=options["create_user"])
            api_key, text = create_key(
                owner=owner, actor=self.actor, name=options["name"], scopes=scopes, expires_at=expires_at
            )
        self.note(f"{self._described(api_key)} with the scopes {', '.join(scopes)}.")
        self.note(f"It expires at {expires_at:%Y-%m-%d %H:%M} UTC." if expires_at else "It does not expire.")
        if self.stdout.isatty():  # Otherwise a script has it.
            self.note("Copy it now. It is not shown again.", role="WARNING")
        self.result(text)

    def _described(self, api_key: ApiKey) -> str:
        if api_key.is_service_key:
            return f"Service key {api_key.id}"
        return f"Key {api_key.id} of {owners().label(api_key.owner)}"

    def _owner(self, name: str, *, create: bool) -> Any:
        has_users = owner_model() is get_user_model()
        if create and not has_users:
            kind = owner_model()._meta.verbose_name_plural
            raise CommandError(f"--create-user requires that owners are users, but they are {kind}.")
        if create and find_owner(name) is None:
            return self._new_user(name)
        return get_owner(name, hint="Add --create-user to create it." if has_users else "")

    def _new_user(self, username: str) -> Any:
        accounts = get_user_model()
        owner = accounts(**{accounts.USERNAME_FIELD: accounts.normalize_username(username)})
        owner.set_unusable_password()
        try:
            owner.full_clean(exclude=["password"])
        except ValidationError as error:
            problems = "; ".join(f"{field}: {' '.join(lines)}" for field, lines in error.message_dict.items())
            raise CommandError(
                f"The user {username!r} cannot be created from a name only ({problems}). "
                "Create it first with the fields that your project requires."
            ) from None
        owner.save()
        self.note(f"Created the user {owner.get_username()}, without a password.")
        return owner


def _scopes(argument: str | None) -> list[str]:
    if argument is None:
        return owner_scopes()
    scopes = list(dict.fromkeys(argument.replace(",", " ").split()))
    unknown = [scope for scope in scopes if scope not in owner_scopes()]
    if unknown or not scopes:
        found = f"Unknown scope {unknown[0]!r}" if unknown else "No scope given"
        raise CommandError(f"{found}. Available: {', '.join(owner_scopes())}.")
    return scopes


def _expiry(days: int | None) -> Any:
    if days is None:
        return None
    if not 1 <= days <= MAX_DAYS:
        raise CommandError(f"--expires-days is {days}, but must be 1 to {MAX_DAYS}. Omit it for a key without expiry.")
    return timezone.now() + timedelta(days=days)
