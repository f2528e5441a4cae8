"""Every management command."""

import io
import json
import tempfile
from pathlib import Path
from pkgutil import iter_modules

from accounts import ARE_GROUPS
from django.core.management import CommandError, call_command
from subjects import DATA, EVENT_TYPE, Subject

from demo_data.management import commands as of_demo
from webhooks_app.management import commands as of_app

ELSEWHERE = {"deliver_webhooks", "listen_webhooks"}
"""The worker runs in ``test_hosts``, and the receiver has no database."""

CREATE_USER = () if ARE_GROUPS else ("--create-user",)

CALLS = {
    "check_event_types": lambda s: ("--against", catalogue()),
    "configure_webhook": lambda s: (s.webhook.pk, "--accepted-statuses", "2xx"),
    "create_api_key": lambda s: (s.name, *CREATE_USER),
    "create_api_key --create-user": lambda s: (s.name if ARE_GROUPS else f"{s.name}-new", *CREATE_USER),
    "create_api_key by key": lambda s: (str(s.owner.pk),),
    "create_portal_link": lambda s: (s.name, "--rights", "manage"),
    "create_webhook": lambda s: ("https://new.example/in", "--owner", s.name, "--events", EVENT_TYPE),
    "emit_event": lambda s: (EVENT_TYPE, "--owner", s.name, "--data", json.dumps(DATA)),
    "estimate_capacity": lambda s: ("--events", "5"),
    "explain_event": lambda s: (s.event.pk,),
    "export_event_catalogue": lambda s: (),
    "forget_webhook_owner": lambda s: (s.event and s.name, "--yes"),
    "list_event_types": lambda s: (),
    "list_webhooks": lambda s: (s.webhook.pk and "--owner", s.name),
    "make_demo_data": lambda s: ("--owners", "1", "--webhooks", "12", "--deliveries", "20"),
    "make_demo_data --delete": lambda s: ("--delete",),
    "pause_webhook": lambda s: (s.webhook.pk,),
    "prune_webhooks": lambda s: (),
    "redeliver_webhooks": lambda s: (s.delivery.pk,),
    "reencrypt_webhook_secrets": lambda s: (),
    "replay_webhooks": lambda s: (s.delivery.webhook_id, "--state", "succeeded", "--yes", "--detach"),
    "resume_webhook": lambda s: (s.paused.pk,),
    "rotate_webhook_secret": lambda s: (s.webhook.pk,),
    "send_test_event": lambda s: (s.webhook.pk, EVENT_TYPE),
    "try_webhook_filter": lambda s: (s.webhook.pk, s.event.pk, "--filter", '{"amount": 4200}'),
    "verify_webhook": lambda s: (s.unverified.pk, "--no-wait"),
    "webhooks_doctor": lambda s: (),
}

EXPECTED = {
    "create_api_key": "whk_",
    "create_portal_link": "/webhooks/link/lnk_",
    "emit_event": "evt_",
    "explain_event": " sent (dlv_",
    "forget_webhook_owner": "Deleted 1 webhook",
    "create_webhook": "whsec_",
    "list_webhooks": "wh_",
    "redeliver_webhooks": "dlv_",
    "replay_webhooks": "of 1 queued",
    "send_test_event": "dlv_",
}
"""Part of the output of some commands."""


def catalogue():
    """Return a file with the current catalogue."""
    path = Path(tempfile.mkdtemp(), "catalogue.json")
    with path.open("w") as file:
        call_command("export_event_catalogue", stdout=file)
    return str(path)


def names():
    """Return the names of all commands."""
    found = {each.name for package in (of_app, of_demo) for each in iter_modules(package.__path__)}
    return found - ELSEWHERE


def covered():
    return {name.partition(" ")[0] for name in CALLS}


def problem(name):
    """Run a command for a new owner. Return what was wrong, or "" after a success."""
    command, printed, notes = name.partition(" ")[0], io.StringIO(), io.StringIO()
    arguments = CALLS[name](Subject())
    try:
        call_command(command, *arguments, stdout=printed, stderr=notes)
    except CommandError as error:
        # Without a worker the doctor reports a failure of its own.
        return "" if command == "webhooks_doctor" and "No worker" in printed.getvalue() else str(error)
    text = printed.getvalue()
    return "" if EXPECTED.get(command, "") in text else text + notes.getvalue()
