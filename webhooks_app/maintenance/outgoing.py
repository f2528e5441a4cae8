"""Mails on their way to the mail server: a thread sends them, so that no job waits for it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.core.mail import mail_admins, send_mail
from django.db import connections
from django.template.loader import render_to_string

from ..owners import owners

logger = logging.getLogger("webhooks_app.health")

MOST_WAITING = 100
"""Number of mails in a process up to which further ones are composed. The others stay due in the database, because
what waits in memory is lost with the process."""


class Mail(NamedTuple):
    """A mail to an owner, or to the admins about what belongs to the platform."""

    name: str
    """The name of its template. The first line of the template is the subject."""
    subject_id: str
    """The webhook or the API key that it is about, or "" for several."""
    owner: Any
    context: dict[str, Any]
    also: Sequence[str] = ()
    """The addresses of others who get it too."""


def send_soon(mail: Mail) -> None:
    """Queue a mail for the thread. Errors are only logged."""
    _outgoing.add(mail)


def room() -> int:
    """Return how many mails can be queued."""
    return max(0, MOST_WAITING - len(_outgoing))


def wait_for_mails(seconds: float) -> None:
    """Wait until all mails are sent, for at most ``seconds``. Log the number of the remaining ones."""
    _outgoing.wait(seconds)


def send(mail: Mail) -> None:
    """Send a mail, one copy to each recipient."""
    text = render_to_string(f"webhooks_app/mail/{mail.name}.txt", {**mail.context, "owner": mail.owner})
    subject, body = (part.strip() for part in text.strip().split("\n", 1))
    addresses = [] if mail.owner is None else owners().recipients(mail.owner)
    if mail.owner is None:
        mail_admins(subject, f"{body}\n")
    for address in dict.fromkeys((*addresses, *mail.also)):  # one each, to hide the other recipients
        send_mail(subject, f"{body}\n", None, [address])
    if mail.owner is not None and not addresses:
        logger.info("The owner of %s has no address.", mail.subject_id or "some webhooks", extra=_attributes(mail))


class _Outgoing:
    """A queue of mails. A thread sends them one after another and ends with the last, so callers never wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Mail] = deque()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, mail: Mail) -> None:
        with self._lock:
            self._waiting.append(mail)
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
            _try(self._waiting[0])
            self._waiting.popleft()

    def _has_more(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return bool(self._waiting)


_outgoing = _Outgoing()


def _try(mail: Mail) -> None:
    try:
        send(mail)
    except Exception:  # Templates and mail backends of the host may raise any exception.
        about = mail.subject_id or "several webhooks"
        logger.exception("The mail about %s could not be sent.", about, extra=_attributes(mail))
    finally:
        connections.close_all()


def _attributes(mail: Mail) -> dict[str, str]:
    return {"webhook_id": mail.subject_id}
