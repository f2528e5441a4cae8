"""Mails to the owner of a webhook, or to the admins about one of the platform's own."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any, TypeAlias

from django.core.mail import mail_admins, send_mail
from django.db import connections, transaction
from django.template.loader import render_to_string

from ..conf import settings
from ..models import Webhook

logger = logging.getLogger("webhooks_app.health")

Context: TypeAlias = dict[str, Any]

WAIT_SECONDS = 10.0
"""For how long a mail server may keep the chores waiting; whatever hangs longer hangs in a thread of its own."""


def mail_owner(name: str, webhook: Webhook, *, using: str, **facts: Any) -> None:
    """Send the mail of this name once the transaction is committed. What goes wrong with it is logged, and no more."""
    if settings.HEALTH_MAILS:
        context = {"webhook": webhook, "owner": webhook.owner, **facts}
        transaction.on_commit(partial(_mail, name, context), using=using)


def _mail(name: str, context: Context) -> None:
    thread = threading.Thread(target=_try, args=(name, context), name="webhooks_app.mail", daemon=True)
    thread.start()
    thread.join(WAIT_SECONDS)


def _try(name: str, context: Context) -> None:
    try:
        _send(name, context)
    except Exception:  # Templates and mail backends may be the host's, and raise anything.
        webhook_id = context["webhook"].pk
        logger.exception("The mail about webhook %s could not be sent.", webhook_id, extra={"webhook_id": webhook_id})
    finally:
        connections.close_all()


def _send(name: str, context: Context) -> None:
    """Send a mail whose template's first line is the subject."""
    text = render_to_string(f"webhooks_app/mail/{name}.txt", context)
    subject, body = (part.strip() for part in text.strip().split("\n", 1))
    owner = context["owner"]
    if owner is None:
        mail_admins(subject, f"{body}\n")
    elif address := getattr(owner, owner.get_email_field_name(), ""):
        send_mail(subject, f"{body}\n", None, [address])
    else:
        webhook_id = context["webhook"].pk
        logger.info("The owner of webhook %s has no address.", webhook_id, extra={"webhook_id": webhook_id})
