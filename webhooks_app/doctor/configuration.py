"""Examination of the settings, the transport and the wake-up."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as django_settings
from django.core import checks
from django.utils.translation import gettext as _

from ..outbound import configured_transport
from ..wake.waking import chosen_wake
from .findings import Finding, Level, fail, ok

OURS = "webhooks_app."
BEAT_CHECK = "webhooks_app.W003"


def examine_settings(name: str) -> Iterator[Finding]:
    """Yield the messages of this app's system checks, except the one about beat."""
    messages = [message for message in _messages(deploy=False) if str(message.id).startswith(OURS)]
    yield from (_of_check(message) for message in messages)
    if not messages:
        yield ok(name, _("All system checks of this app pass."))


def examine_deployment(name: str) -> Iterator[Finding]:
    """Yield the messages of `check --deploy`, including Django's own; with DEBUG, a single remark."""
    known = _messages(deploy=False)
    messages = [message for message in _messages(deploy=True) if message not in known]
    if not messages:
        yield ok(name, _("`manage.py check --deploy` reports nothing else."))
    elif django_settings.DEBUG:
        found = _("DEBUG is on. For production, `manage.py check --deploy` also reports: %(ids)s.")
        yield ok(name, found % {"ids": ", ".join(sorted(str(message.id) for message in messages))})
    else:
        yield from (_of_check(message, "check --deploy: ") for message in messages)


def _messages(*, deploy: bool) -> list[checks.CheckMessage]:
    tags = ["webhooks", checks.Tags.security] if deploy else ["webhooks"]
    found = checks.run_checks(tags=tags, include_deployment_checks=deploy)
    return [message for message in found if message.id != BEAT_CHECK and not message.is_silenced()]


def _of_check(message: checks.CheckMessage, prefix: str = "") -> Finding:
    level = Level.ERROR if message.level >= checks.ERROR else Level.WARNING
    return Finding(name=str(message.id), level=level, found=f"{prefix}{message.msg}", hint=str(message.hint or ""))


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
    found = chosen_wake()
    how = _("Workers poll the database.") if found == "none" else _("Workers are woken by '%(name)s'.")
    yield ok(name, how % {"name": found})
