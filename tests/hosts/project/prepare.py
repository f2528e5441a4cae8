"""Check and migrate the host and create its accounts. Print the findings and an API key as JSON."""

import json
import os
from io import StringIO

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")

import django

django.setup()

import accounts
from django.core import checks
from django.core.management import call_command
from django.urls import NoReverseMatch, reverse

import webhooks_app


def printed_by(command, *arguments):
    printed = StringIO()
    call_command(command, *arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue().strip()


def link():
    """Return a link to the customers' pages, or "" without them."""
    try:
        reverse("webhooks_portal:accounts")
    except NoReverseMatch:
        return ""
    return printed_by("create_portal_link", accounts.OWNER, "--rights", "read,manage,secrets")


def main():
    found = checks.run_checks()
    prepare = getattr(accounts, "prepare", lambda: call_command("migrate", verbosity=0))
    prepare()
    accounts.create()
    return {
        "package": webhooks_app.__file__,
        "django": django.get_version(),
        "warnings": {each.id: each.msg for each in found if (each.id or "").startswith("webhooks_app.")},
        "key": printed_by("create_api_key", accounts.OWNER),
        "link": link(),
        "staff": accounts.STAFF,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
