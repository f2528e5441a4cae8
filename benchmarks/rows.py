"""The webhooks and events of a measurement, and the check that each delivery was sent exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection
from django.db.models import QuerySet

from webhooks_app import emit
from webhooks_app.models import Delivery, DeliveryAttempt, Event, MaintenanceJob, Webhook, WorkerProcess

from .bare import SECRET
from .progress import Progress
from .receivers import Receiver
from .workers import COMMAND_READY, Worker

EVENT_TYPE = "ppt.generation.failed"
DATA = {"error": "x" * 850}
"""Makes an envelope of about 1 KB."""

ENGINE_STARTED = COMMAND_READY
"""The log line of a new engine."""

WARM_UP_SECONDS = 10


def make_tables() -> None:
    call_command("migrate", verbosity=0)


def make_webhooks(urls: Sequence[str], *, subscribers: int) -> list[Any]:
    """Create an active webhook for each URL, ``subscribers`` per owner; return the owners."""
    stamp = time.time_ns()
    accounts = get_user_model().objects
    owners = [accounts.create(username=f"owner-{stamp}-{index}") for index in range(max(1, len(urls) // subscribers))]
    subscribe((owners[index // subscribers], url) for index, url in enumerate(urls))
    return owners


def subscribe(receivers: Iterable[tuple[Any, str]], event_type: str = EVENT_TYPE) -> list[Webhook]:
    """Create an active webhook for each owner and URL."""
    webhooks = [
        Webhook(owner=owner, url=url, event_types=[event_type], status=Webhook.Status.ACTIVE)
        for owner, url in receivers
    ]
    for webhook in webhooks:
        webhook.secret = SECRET
    return Webhook.objects.bulk_create(webhooks)


def emit_one(owner: Any) -> Event:
    return emit(EVENT_TYPE, DATA, owner=owner)


def warm_up(
    owners: Sequence[Any], workers: Sequence[Worker], receiver: Receiver, progress: Progress, *, processes: int = 1
) -> int:
    """Emit until ``processes`` of the workers deliver, or no others follow; return the number of requests."""
    progress.step("warming up")
    deadline = time.monotonic() + WARM_UP_SECONDS
    while (begun := engines(workers)) < processes and not (begun and time.monotonic() > deadline):
        if time.monotonic() > deadline + WARM_UP_SECONDS:
            raise RuntimeError("No worker started to deliver.")
        for owner in owners:
            emit_one(owner)
        time.sleep(0.15)  # longer than the interval of wake-ups
    for owner in owners:
        emit_one(owner)
    expected = Delivery.objects.count()
    wait_until_delivered(receiver, expected, progress)
    return expected


def engines(workers: Sequence[Worker]) -> int:
    """Return the number of the workers' processes with an engine."""
    return sum(worker.count(ENGINE_STARTED) for worker in workers)


def wait_until_delivered(receiver: Receiver, expected: int, progress: Progress, *, seconds: float = 600) -> None:
    """Wait until ``expected`` requests are answered and all deliveries are final."""
    deadline = time.monotonic() + seconds
    while (answered := receiver.count()) < expected or Delivery.objects.pending().exists():
        progress.done(answered)
        if time.monotonic() > deadline:
            raise RuntimeError(f"Only {answered} of {expected} deliveries were sent in {seconds:.0f} s.")
        time.sleep(0.05)


def wait_until_received(webhooks: QuerySet[Webhook], progress: Progress, *, seconds: float = 60) -> None:
    """Wait until no delivery to these webhooks is pending."""
    deadline = time.monotonic() + seconds
    while left := Delivery.objects.filter(webhook__in=webhooks).pending().count():
        progress.done(left)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{left} deliveries are still pending after {seconds:.0f} s.")
        time.sleep(0.05)


def check(receiver: Receiver, expected: int) -> None:
    """Raise RuntimeError unless each delivery was sent exactly once, by the rows and by the receiver's log."""
    requests = receiver.requests()
    found = {
        "deliveries that succeeded": Delivery.objects.filter(state=Delivery.State.SUCCEEDED).count(),
        "attempts": DeliveryAttempt.objects.count(),
        "requests": len(requests),
        "different requests": len({(request.target, request.signature) for request in requests}),
    }
    if set(found.values()) != {expected}:
        raise RuntimeError(f"{expected} were expected of each, but there are {found}.")


def clear() -> None:
    """Empty the tables for the next run, except those of jobs and processes."""
    kept = (MaintenanceJob, WorkerProcess)
    models = [model for model in apps.get_app_config("webhooks_app").get_models() if model not in kept]
    connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), [model._meta.db_table for model in models]))
