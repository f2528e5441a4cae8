"""Notifications about failing, recovered and disabled webhooks: operational events, signals and emails.

The owner of a webhook gets the emails, or the admins those about a webhook of the platform.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from django.core.mail import mail_admins, send_mail
from django.db import connections, models, transaction
from django.template.loader import render_to_string

from ..conf import settings
from ..emission import Operational, emit_operational
from ..event_types import (
    DELIVERY_GIVEN_UP,
    OPERATIONAL_NAMES,
    RECOVERY_ENDED,
    WEBHOOK_DISABLED,
    WEBHOOK_FAILING,
    WEBHOOK_RECOVERED,
)
from ..models import Delivery, Episode, Webhook, WebhookHealth
from ..owners import owners
from ..reasons import code_of
from ..routing import RoutedEvent, webhooks_for
from ..signals import webhook_failing, webhook_recovered

if TYPE_CHECKING:
    from .health import Recovery, Rule

logger = logging.getLogger("webhooks_app.health")

AT_A_TIME = 500

Context: TypeAlias = dict[str, Any]

MOST_WAITING = 1000
"""Maximum number of queued emails. Further ones are discarded."""


def notify_failing(webhook: Webhook, health: WebhookHealth, rule: Rule) -> None:
    """Warn about a webhook, in the transaction that records the warning."""
    facts = {"failing_since": health.failing_since, "given_up": health.given_up_count}
    disables_at = rule.disables_at(health)
    data = facts if disables_at is None else {**facts, "disables_at": disables_at}
    using = _database(webhook)
    emit_operational(using, [Operational(WEBHOOK_FAILING, webhook.pk, {**_about(webhook), **data})])
    facts["disables_at"] = disables_at
    signal = partial(webhook_failing.send_robust, Webhook, webhook_id=webhook.pk, **facts)
    transaction.on_commit(signal, using=using)
    mail_owner("failing", webhook, using=using, **facts)


def notify_recovered(using: str, recoveries: Sequence[Recovery]) -> None:
    """Report the recovered webhooks that are active, in the transaction that ends their failing periods."""
    ids = [recovery.webhook_id for recovery in recoveries]
    active = Webhook.objects.using(using).active().select_related("owner")
    webhooks = {webhook.pk: webhook for webhook in active.filter(pk__in=ids).readable()} if ids else {}
    recovered = [(webhooks[each.webhook_id], each) for each in recoveries if each.webhook_id in webhooks]
    happenings = []
    for webhook, recovery in recovered:
        facts = {"failed_since": recovery.failed_since, "recovered_at": recovery.recovered_at}
        happenings.append(Operational(WEBHOOK_RECOVERED, webhook.pk, {**_about(webhook), **facts}))
        signal = partial(
            webhook_recovered.send_robust, Webhook, webhook_id=webhook.pk, failed_since=recovery.failed_since
        )
        transaction.on_commit(signal, using=using)
        mail_owner("recovered", webhook, using=using, **facts)
    emit_operational(using, happenings)


def notify_recovery_ended(webhook: Webhook, episode: Episode, *, recovered: int, given_up: int) -> None:
    """Report what an automatic recovery has achieved, in the transaction that ends it."""
    facts = {"failed_since": episode.began_at, "recovered": recovered, "given_up": given_up}
    emit_operational(_database(webhook), [Operational(RECOVERY_ENDED, webhook.pk, {**_about(webhook), **facts})])


def notify_disabled(webhook: Webhook, health: WebhookHealth) -> None:
    """Send an email about a webhook disabled for failing. Signal and event are sent whenever a webhook is disabled."""
    facts = {"failing_since": health.failing_since, "given_up": health.given_up_count}
    mail_owner("disabled", webhook, using=_database(webhook), **_reason(webhook), **facts)


def emit_disabled(sender: type[models.Model], webhook: Webhook, **kwargs: Any) -> None:
    """Emit the operational event (signal handler for ``webhook_being_disabled``)."""
    facts = {**_reason(webhook), "disabled_at": webhook.status_changed_at}
    happening = Operational(WEBHOOK_DISABLED, webhook.pk, {**_about(webhook), **facts})
    emit_operational(_database(webhook), [happening])


def emit_given_up(using: str, delivery_ids: Sequence[str]) -> None:
    """Emit an event for each given-up delivery, except of operational events, if a webhook is subscribed."""
    if not delivery_ids or not webhooks_for(RoutedEvent(type=DELIVERY_GIVEN_UP.name), using).exists():
        return
    rows = Delivery.objects.using(using).select_related("event", "webhook").defer("event__body").order_by("pk")
    for first in range(0, len(delivery_ids), AT_A_TIME):
        some = rows.filter(pk__in=delivery_ids[first : first + AT_A_TIME])
        emit_operational(using, list(_given_up(some.readable())))


def _given_up(deliveries: Sequence[Delivery]) -> Iterator[Operational]:
    for delivery in deliveries:
        if delivery.event is None or delivery.event.type in OPERATIONAL_NAMES:
            continue
        data = {
            "delivery_id": delivery.pk,
            "event_id": delivery.event.pk,
            "event_type": delivery.event.type,
            "attempts": delivery.attempt_count,
            "last_result": delivery.last_result,
        }
        yield Operational(DELIVERY_GIVEN_UP, delivery.webhook_id, {**_about(delivery.webhook), **data})


def _about(webhook: Webhook) -> dict[str, Any]:
    """Return the common data of all operational events about a webhook."""
    about = {"webhook_id": webhook.pk, "url": webhook.url}
    return about if webhook.owner_id is None else {**about, "owner": str(webhook.owner_id)}


def _reason(webhook: Webhook) -> dict[str, str]:
    return {"reason": webhook.status_reason, "reason_code": code_of(webhook.status_reason)}


def _database(webhook: Webhook) -> str:
    return webhook.alias


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
