"""Examination of the settings, the transport and the wake-up."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as django_settings
from django.core import checks
from django.utils.translation import gettext as _

from ..outbound import configured_transport
from ..wake.registry import WAKES, chosen_path
from .findings import Finding, Level, fail, ok

OURS = "webhooks_app."
BEAT_CHECK = "webhooks_app.W003"


def examine_settings(name: str) -> Iterator[Finding]:
    """Yield the messages of our system checks, and of those for deployment if DEBUG is off, except that of beat."""
    messages = [
        message
        for message in checks.run_checks(tags=["webhooks"], include_deployment_checks=not django_settings.DEBUG)
        if _is_ours(message) and message.id != BEAT_CHECK
    ]
    yield from (_of_check(message) for message in messages)
    if not messages:
        yield ok(name, _("All system checks pass."))


def _is_ours(message: checks.CheckMessage) -> bool:
    return str(message.id).startswith(OURS) and not message.is_silenced()


def _of_check(message: checks.CheckMessage) -> Finding:
    level = Level.ERROR if message.level >= checks.ERROR else Level.WARNING
    return Finding(name=str(message.id), level=level, found=str(message.msg), hint=str(message.hint or ""))


def examine_transport(name: str) -> Iterator[Finding]:
    try:
        transport = configured_transport()
    except ValueError as error:
        found = _("WEBHOOKS_TRANSPORT cannot be used: %(error)s") % {"error": error}
        yield fail(name, found, _("Choose an installed transport."))
        return
    transport.close()
    yield ok(name, _("Requests are sent by the transport '%(name)s'.") % {"name": transport.name})


def examine_wake(name: str) -> Iterator[Finding]:
    path = chosen_path()
    found = next((short for short, full in WAKES.items() if full == path), path)
    how = _("Workers poll the database.") if found == "none" else _("Workers are woken by '%(name)s'.")
    yield ok(name, how % {"name": found})
