"""``manage.py create_api_key``"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import router
from django.utils import timezone

from ...models import ApiKey
from ...models.api_key import all_scopes
from ...models.sql import writing
from ..accounts import find_account, get_account
from ..base import WebhooksCommand

MAX_DAYS = 36_500


class Command(WebhooksCommand):
    help = (
        "Create an API key for an account and print it, alone on standard output. "
        "It is shown this once: only a hash of it is stored."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", help="The account that the key acts for, as it logs in.")
        parser.add_argument("--name", default="", help="What the key is for; shown in lists.")
        parser.add_argument(
            "--scopes",
            help=f"What the key may do, separated by commas: {', '.join(ApiKey.Scope.values)}. Default: all.",
        )
        parser.add_argument(
            "--expires-days", type=int, metavar="N", help="Refuse the key after this many days. Default: never."
        )
        parser.add_argument(
            "--create-user",
            action="store_true",
            help="Make the account, without a password, if there is none of this name.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        scopes = _scopes(options["scopes"])
        expires_at = _expiry(options["expires_days"])
        with writing(router.db_for_write(ApiKey), ApiKey):
            owner = self._account(options["username"], create=options["create_user"])
            api_key, text = ApiKey.objects.make(owner=owner, name=options["name"], scopes=scopes, expires_at=expires_at)
        self.note(f"Key {api_key.id} of {owner.get_username()} with the scopes {', '.join(scopes)}.")
        self.note(f"It expires at {expires_at:%Y-%m-%d %H:%M} UTC." if expires_at else "It does not expire.")
        self.note("Keep it now: it is not shown again.", role="WARNING")
        self.result(text)

    def _account(self, username: str, *, create: bool) -> Any:
        if create and find_account(username) is None:
            return self._new_account(username)
        owner = get_account(username, hint="Add --create-user to make it.")
        if not owner.is_active:
            raise CommandError(f"The account {username!r} is not active, so its keys are refused. Activate it first.")
        return owner

    def _new_account(self, username: str) -> Any:
        accounts = get_user_model()
        owner = accounts(**{accounts.USERNAME_FIELD: accounts.normalize_username(username)})
        owner.set_unusable_password()
        try:
            owner.full_clean(exclude=["password"])
        except ValidationError as error:
            problems = "; ".join(f"{field}: {' '.join(lines)}" for field, lines in error.message_dict.items())
            raise CommandError(
                f"The account {username!r} cannot be made from its name alone ({problems}). "
                "Create it first, with what your project asks of an account."
            ) from None
        owner.save()
        self.note(f"Created the account {owner.get_username()}, without a password.")
        return owner


def _scopes(argument: str | None) -> list[str]:
    if argument is None:
        return all_scopes()
    scopes = list(dict.fromkeys(argument.replace(",", " ").split()))
    unknown = [scope for scope in scopes if scope not in ApiKey.Scope.values]
    if unknown or not scopes:
        found = f"Unknown scope {unknown[0]!r}" if unknown else "No scope given"
        raise CommandError(f"{found}. There are: {', '.join(ApiKey.Scope.values)}.")
    return scopes


def _expiry(days: int | None) -> Any:
    if days is None:
        return None
    if not 1 <= days <= MAX_DAYS:
        raise CommandError(f"--expires-days is {days}; give 1 to {MAX_DAYS}, or leave it out for a key without expiry.")
    return timezone.now() + timedelta(days=days)
