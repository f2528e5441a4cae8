"""Emails to the owner of a webhook, or to the admins about a webhook of the platform."""

from __future__ import annotations

import logging
import threading
from collections import deque
from functools import partial
from typing import Any, TypeAlias

from django.core.mail import mail_admins, send_mail
from django.db import connections, transaction
from django.template.loader import render_to_string

from ...conf import settings
from ...models import Webhook
from ...owners import owners

logger = logging.getLogger("webhooks_app.health")

Context: TypeAlias = dict[str, Any]

MOST_WAITING = 1000
"""Maximum number of queued emails. Further ones are discarded."""


def mail_owner(name: str, webhook: Webhook, *, using: str, **facts: Any) -> None:
    """Send the named email after the commit. Errors are only logged."""
    if settings.HEALTH_MAILS:
        context = {"webhook": webhook, "owner": webhook.owner, **facts}
        transaction.on_commit(partial(_outgoing.add, name, context), using=using)


def wait_for_mails(seconds: float) -> None:
    """Wait until all emails are sent, for at most ``seconds``. Log the number of the remaining ones."""
    _outgoing.wait(seconds)


class _Outgoing:
    """A queue of emails. A thread sends them one after another and ends with the last, so callers never wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, Context]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, name: str, context: Context) -> None:
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                text = "The mail about webhook %s is discarded: %d others are queued for the mail server."
                logger.error(text, context["webhook"].pk, MOST_WAITING, extra=_attributes(context))
                return
            self._waiting.append((name, context))
            if self._thread is None or not self._thread.is_alive():  # the thread may belong to the parent of a fork
                self._start()

    def wait(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        if self._waiting:
            logger.error("The mail server did not answer in time. Mails that may be lost: %d.", len(self._waiting))

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="webhooks_app.mail", daemon=True)
        try:
            thread.start()
            self._thread = thread
        except RuntimeError as error:  # No thread is available.
            logger.warning("No thread could be started for mails. The next mail tries again (%s).", error)

    def _run(self) -> None:
        while self._has_more():
            _try(*self._waiting[0])
            self._waiting.popleft()

    def _has_more(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)


_outgoing = _Outgoing()


def _try(name: str, context: Context) -> None:
    try:
        _send(name, context)
    except Exception:  # Templates and mail backends of the host may raise any exception.
        attributes = _attributes(context)
        logger.exception("The mail about webhook %s could not be sent.", context["webhook"].pk, extra=attributes)
    finally:
        connections.close_all()


def _send(name: str, context: Context) -> None:
    """Send an email. The first line of its template is the subject."""
    text = render_to_string(f"webhooks_app/mail/{name}.txt", context)
    subject, body = (part.strip() for part in text.strip().split("\n", 1))
    owner = context["owner"]
    if owner is None:
        mail_admins(subject, f"{body}\n")
        return
    addresses = owners().recipients(owner)
    for address in addresses:  # one each, to hide the other recipients
        send_mail(subject, f"{body}\n", None, [address])
    if not addresses:
        attributes = _attributes(context)
        logger.info("The owner of webhook %s has no address.", context["webhook"].pk, extra=attributes)


def _attributes(context: Context) -> dict[str, str]:
    return {"webhook_id": context["webhook"].pk}
