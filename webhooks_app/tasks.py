"""Celery's tasks: start or wake the engine, start a handshake again, prune. Imported only where Celery is used."""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery import current_app, shared_task
from celery.signals import (
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
    worker_shutting_down,
)

from .conf import settings
from .delivery.engine import Engine
from .exceptions import WebhookStateError
from .maintenance.retention import prune as prune_rows
from .models import Webhook
from .operations.actors import PROJECT
from .operations.verification import start_verification
from .wake.background import background
from .wake.celery import CeleryWake
from .wake.folding import FoldedCall

logger = logging.getLogger("webhooks_app.delivery")

PRUNE_SECONDS = 600
"""What one pruning may take, so that it is over long before the next; what is left is for that one."""


@shared_task(name="webhooks_app.deliver_due", ignore_result=True)
def deliver_due(*_: Any, by: Any = "", **__: Any) -> None:
    """Wake this process's engine. Carries no data: losing it, or having it twice, makes no difference.

    What another version may have sent along is not looked at; ``by`` tells what beat sends from what others do.
    """
    if current_app.conf.task_always_eager:
        Engine().run_until_idle(await_retries=False)
        return
    background.start()
    if by == "beat":
        background.note_beat()


@shared_task(name="webhooks_app.verify_webhook", ignore_result=True)
def verify_webhook(webhook_id: str, *_: Any, **__: Any) -> None:
    """Start a webhook's handshake again. What another version may have sent along is not looked at."""
    try:
        start_verification(Webhook.objects.existing().get(pk=webhook_id), actor=PROJECT)
    except (Webhook.DoesNotExist, WebhookStateError) as error:
        logger.warning("Webhook %s is not verified: %s", webhook_id, error)


@shared_task(name="webhooks_app.prune", ignore_result=True)
def prune(*_: Any, **__: Any) -> None:
    """Delete what retention has ended for. What another version may have sent along is not looked at."""
    prune_rows(max_seconds=PRUNE_SECONDS)


@worker_init.connect
def _begin_anew(**kwargs: Any) -> None:
    background.reset()


@worker_process_init.connect
def _sweep_unasked(**kwargs: Any) -> None:
    """Start an engine in each process of a worker after a sweep's time, though no message may have come to it by then.

    Messages alone would all go to whichever process is idle, and none is sent where a process was killed and Celery
    started another in its place. Not at once: Celery gives up if a process ends before all are ready.
    """
    if _takes_wake_ups():
        timer = threading.Timer(settings.SWEEP_SECONDS, background.start)
        timer.daemon = True
        timer.start()


@worker_ready.connect
def _find_what_is_due(**kwargs: Any) -> None:
    """Start the engine of this worker's queue, which from then on sweeps by itself, beat or no beat."""
    FoldedCall(CeleryWake().send)()


def _takes_wake_ups() -> bool:
    """Tell whether this worker consumes the queue that the host routes wake-ups to."""
    queue = current_app.amqp.router.route({}, deliver_due.name)["queue"]
    return getattr(queue, "name", queue) in current_app.amqp.queues.consume_from


@worker_shutting_down.connect
def _stop_claiming(**kwargs: Any) -> None:
    background.stop()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _finish_in_flight(**kwargs: Any) -> None:
    background.finish()
