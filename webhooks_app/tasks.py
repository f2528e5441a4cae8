"""Celery tasks: start or wake the engine, start a handshake again, prune. Imported only if Celery is used."""

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
from .operations.lifecycle import start_verification
from .wake.celery import CeleryWake
from .wake.engine_thread import background
from .wake.messages import FoldedCall

logger = logging.getLogger("webhooks_app.delivery")

PRUNE_SECONDS = 600
"""Time limit of one pruning, well below its interval; the next one continues."""


@shared_task(name="webhooks_app.deliver_due", ignore_result=True)
def deliver_due(*_: Any, by: Any = "", **__: Any) -> None:
    """Wake this process's engine. The message carries no data, so its loss or repetition does no harm.

    Arguments of other versions are ignored; ``by`` distinguishes messages of Celery beat from others.
    """
    if current_app.conf.task_always_eager:
        Engine().run_until_idle(await_retries=False)
        return
    background.start()
    if by == "beat":
        background.note_beat()


@shared_task(name="webhooks_app.verify_webhook", ignore_result=True)
def verify_webhook(webhook_id: str, *_: Any, **__: Any) -> None:
    """Start a webhook's handshake again. Arguments of other versions are ignored."""
    try:
        start_verification(Webhook.objects.existing().get(pk=webhook_id), actor=PROJECT)
    except (Webhook.DoesNotExist, WebhookStateError) as error:
        logger.warning("Webhook %s is not verified: %s", webhook_id, error)


@shared_task(name="webhooks_app.prune", ignore_result=True)
def prune(*_: Any, **__: Any) -> None:
    """Delete rows whose retention has ended. Arguments of other versions are ignored."""
    prune_rows(max_seconds=PRUNE_SECONDS)


@worker_init.connect
def _reset(**kwargs: Any) -> None:
    background.reset()


@worker_process_init.connect
def _start_in_each_process(**kwargs: Any) -> None:
    """Start an engine in each process of a worker after one sweep interval, even if it has received no message.

    Messages alone would all go to an idle process, and Celery sends none when it replaces a killed process. The start
    is delayed because Celery gives up if a process ends before all are ready.
    """
    if _consumes_wake_ups():
        timer = threading.Timer(settings.SWEEP_SECONDS, background.start)
        timer.daemon = True
        timer.start()


@worker_ready.connect
def _start_for_queue(**kwargs: Any) -> None:
    """Start the engine of this worker's queue, which then sweeps by itself, with or without Celery beat."""
    FoldedCall(CeleryWake().send)()


def _consumes_wake_ups() -> bool:
    """Return True if this worker consumes the queue to which the host routes wake-ups."""
    queue = current_app.amqp.router.route({}, deliver_due.name)["queue"]
    return getattr(queue, "name", queue) in current_app.amqp.queues.consume_from


@worker_shutting_down.connect
def _stop_claiming(**kwargs: Any) -> None:
    background.stop()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _finish_in_flight(**kwargs: Any) -> None:
    background.finish()
