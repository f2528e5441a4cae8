"""``manage.py create_portal_link``"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser
from django.urls import NoReverseMatch

from ...operations.portal_links import MAX_AGE, RIGHTS, create_link, path_of
from ...owners import owners
from ..base import OWNER_HELP, WebhooksCommand, get_owner

MAX_MINUTES = int(MAX_AGE.total_seconds() // 60)


class Command(WebhooksCommand):
    help = "Create a link to the customers' pages of an owner, for a visitor without a login, and print it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("owner", help=f"The owner whose pages the link opens. {OWNER_HELP}")
        parser.add_argument(
            "--rights",
            default="read",
            help=f"What the visitor may do, separated by commas: {', '.join(RIGHTS)}. Default: %(default)s.",
        )
        parser.add_argument(
            "--user",
            default="",
            metavar="NAME",
            help="The user it is for, who may never do more than the owner policy permits. "
            "Default: nobody, so that only the rights limit the visitor.",
        )
        parser.add_argument(
            "--expires-minutes",
            type=int,
            default=15,
            metavar="N",
            help=f"How long the link can be opened, at most {MAX_MINUTES} minutes. Default: %(default)s.",
        )
        parser.add_argument("--page", default="", help="The first page, such as deliveries/. Default: the overview.")
        parser.add_argument(
            "--site",
            default="",
            metavar="URL",
            help="Your site, such as https://app.example.com. Default: the path only.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        owner = get_owner(options["owner"])
        rights = options["rights"].replace(",", " ").split()
        if not rights:
            raise CommandError(f"--rights is empty. Pass any of: {', '.join(RIGHTS)}.")
        if not 1 <= options["expires_minutes"] <= MAX_MINUTES:
            raise CommandError(f"--expires-minutes is {options['expires_minutes']}, but must be 1 to {MAX_MINUTES}.")
        expires = timedelta(minutes=options["expires_minutes"])
        try:
            link = create_link(
                owner,
                actor=self.actor,
                user=_user(options["user"]),
                rights=rights,
                expires=expires,
                page=options["page"],
            )
            path = path_of(link)
        except ValueError as error:
            raise CommandError(str(error)) from None
        except NoReverseMatch:
            raise CommandError(
                "Your URLs have no customers' pages. Add path('webhooks/', include('webhooks_app.portal.urls'))."
            ) from None
        self.note(f"Link {link.pk} to the pages of {owners().label(owner)}, with the rights {', '.join(link.rights)}.")
        self.note(f"Open it before {link.expires_at:%Y-%m-%d %H:%M} UTC. It works once; the visit lasts an hour.")
        self.result(f"{options['site'].rstrip('/')}{path}")


def _user(name: str) -> Any:
    """Return the user with this name; None for "". Raise CommandError if there is none."""
    if not name:
        return None
    accounts: Any = get_user_model()
    user = accounts.objects.filter(**{accounts.USERNAME_FIELD: name}).first()
    if user is None:
        raise CommandError(f"No {accounts._meta.verbose_name} has the {accounts.USERNAME_FIELD} {name!r}.")
    return user
