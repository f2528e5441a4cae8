"""What is measured. Every figure is taken from rows and the receiver's log; where they disagree, the run fails."""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from . import ceiling, world

EVENT_TYPE = "ppt.generation.failed"
WEBHOOKS = 20
SUBSCRIBERS = 10
BODY_FILLER = "x" * 850
"""Makes an envelope of about 1 KB."""


def set_up() -> None:
    """Set Django up in this process and make the tables."""
    import django  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415

    django.setup()
    call_command("migrate", verbosity=0)


def throughput(arguments: argparse.Namespace) -> dict[str, float]:
    """Deliver what is already due, with workers started for it; beside it, a bare loop that signs and posts."""
    with world.receiver() as receiver:
        owners = _webhooks(receiver.url)
        expected = arguments.events * SUBSCRIBERS
        for index in range(arguments.events):
            _emit(owners[index % len(owners)])
        with tempfile.NamedTemporaryFile() as log:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with world.workers(arguments.workers, Path(log.name)):
                _wait_until_delivered()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        _check(receiver, expected)
        seconds = _span([float(line[0]) for line in receiver.requests()])
        bare = ceiling.deliveries_per_second(receiver.url, expected)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    _clear()
    return {
        "deliveries_per_s": expected / seconds,
        "ceiling_per_s": bare,
        "ratio_to_ceiling": expected / seconds / bare,
        "cpu_s_per_1000": 1000 * cpu / expected,
    }


def latency(arguments: argparse.Namespace) -> dict[str, float]:
    """Emit one event every so often; measure from the commit to the receiver's answer."""
    emitted_at = []
    with world.receiver() as receiver, tempfile.NamedTemporaryFile() as log:
        (owner, *_) = _webhooks(receiver.url, webhooks=1, subscribers=1)
        with world.workers(arguments.workers, Path(log.name)):
            _emit(owner)
            _wait_until_delivered()
            for _ in range(200):
                time.sleep(0.05)
                _emit(owner)
                emitted_at.append(time.time())
            _wait_until_delivered()
        answered_at = [float(line[0]) for line in receiver.requests()][1:]
    _clear()
    waits = sorted(1000 * (answer - emitted) for answer, emitted in zip(answered_at, emitted_at, strict=True))
    return {
        "p50_ms": statistics.median(waits),
        "p95_ms": waits[int(len(waits) * 0.95)],
        "p99_ms": waits[int(len(waits) * 0.99)],
    }


def emit(arguments: argparse.Namespace) -> dict[str, float]:
    """Emit in a transaction each, with nobody delivering."""
    figures = {}
    for subscribers in (1, 10, 100):
        (owner, *_) = _webhooks("http://127.0.0.1:9", webhooks=subscribers, subscribers=subscribers)
        started_at = time.perf_counter()
        for _ in range(arguments.events):
            _emit(owner)
        figures[f"events_per_s_{subscribers}"] = arguments.events / (time.perf_counter() - started_at)
        _clear()
    return figures


def _webhooks(url: str, *, webhooks: int = WEBHOOKS, subscribers: int = SUBSCRIBERS) -> list[Any]:
    """Make active webhooks, so many an owner that each event has that many subscribers; return the owners."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415

    from webhooks_app.models import Webhook  # noqa: PLC0415

    owners = [
        get_user_model().objects.create_user(f"owner-{time.time_ns()}") for _ in range(max(1, webhooks // subscribers))
    ]
    for index in range(webhooks):
        webhook = Webhook(
            owner=owners[index // subscribers],
            url=f"{url}/{index}",
            event_types=[EVENT_TYPE],
            status=Webhook.Status.ACTIVE,
        )
        webhook.secret = "a secret for benchmarks"
        webhook.save()
    return owners


def _emit(owner: Any) -> None:
    from webhooks_app import emit  # noqa: PLC0415

    emit(EVENT_TYPE, {"error": BODY_FILLER}, owner=owner)


def _wait_until_delivered() -> None:
    from webhooks_app.models import Delivery  # noqa: PLC0415

    deadline = time.monotonic() + 600
    while Delivery.objects.pending().exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{Delivery.objects.pending().count()} deliveries are not final after 10 minutes.")
        time.sleep(0.05)


def _check(receiver: world.Receiver, expected: int) -> None:
    from webhooks_app.models import Delivery, DeliveryAttempt  # noqa: PLC0415

    succeeded = Delivery.objects.filter(state=Delivery.State.SUCCEEDED).count()
    found = (succeeded, DeliveryAttempt.objects.count(), len(receiver.requests()))
    if found != (expected, expected, expected):
        raise RuntimeError(f"{expected} expected; succeeded, attempts, requests: {found}.")


def _span(moments: list[float]) -> float:
    return max(moments) - min(moments)


def _clear() -> None:
    from webhooks_app.models import Delivery, DeliveryAttempt, Event, Webhook  # noqa: PLC0415

    for model in (DeliveryAttempt, Delivery, Event, Webhook):
        model.objects.all().delete()
