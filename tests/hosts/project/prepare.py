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

import webhooks_app


def created_key():
    printed = StringIO()
    call_command("create_api_key", accounts.OWNER, stdout=printed, stderr=StringIO())
    return printed.getvalue().strip()


def main():
    found = checks.run_checks()
    prepare = getattr(accounts, "prepare", lambda: call_command("migrate", verbosity=0))
    prepare()
    accounts.create()
    return {
        "package": webhooks_app.__file__,
        "django": django.get_version(),
        "warnings": {each.id: each.msg for each in found if (each.id or "").startswith("webhooks_app.")},
        "key": created_key(),
        "staff": accounts.STAFF,
    }


if __name__ == "__main__":
    print(json.dumps(main()))
