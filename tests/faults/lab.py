"""A small host: a real database, broker and receiver, with workers and beats, and the evidence that they leave."""

from __future__ import annotations

import json
import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, Self

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import Error, connection, connections, transaction
from django.db.models import DateTimeField, F
from django.test import override_settings
from django.utils import timezone
from environ import Env

from tests.support.retries import EXTENDED, FAULTS, SHORT_EXTENDED, Faults, ShortExtended
from webhooks_app.models import Delivery, DeliveryAttempt, Event, QueueEntry, QueueLane, Webhook
from webhooks_app.protocol.ids import new_id
from webhooks_app.protocol.json_data import encode

from ..support.rows import EVENT_TYPE, make_webhook
from ..support.servers.process import free_port, listens
from ..support.waiting import wait_until
from .choices import has_all, is_admitted, problems_of
from .invariants import AttemptRow, Counts, DeliveryRow, Evidence, Pair, count, is_stuck, last_hits
from .processes import Host, Process
from .receiver import LogReader
from .servers import BaseBroker, BaseDatabase, FolderBroker

SETTINGS: dict[str, Any] = {
    # Times that do not matter to the tests are short. Two retries are as specified.
    "WEBHOOKS_TIMEOUT_SECONDS": 5,
    "WEBHOOKS_LEASE_SECONDS": 10,
    "WEBHOOKS_RETRY_POLICIES": [FAULTS, SHORT_EXTENDED],
    "WEBHOOKS_SWEEP_SECONDS": 2,
}


CELERY_APP = "tests.support.celery"


class Lab:
    """Tests must increment ``kills`` for each worker that loses its current work."""

    def __init__(
        self, database: BaseDatabase, broker: BaseBroker, directory: Path, *, url: str = "", **settings: Any
    ) -> None:
        self.database = database
        self.broker = broker
        self.directory = directory
        self.settings = {**SETTINGS, **settings}
        self.disk_full = directory / "disk-full"
        self.kills = 0
        self.committed: set[str] = set()
        self.keys: dict[str, str | None] = {}
        """The ordering keys of committed events, in the order of emission."""
        self.rolled_back: set[str] = set()
        self.queued: set[str] = set()
        self.webhooks: list[Webhook] = []
        self.signing_keys: dict[str, set[str]] = {}
        """By webhook: the keys with which its receiver has ever verified."""
        self.workers: list[Process] = []
        self.beats: list[Process] = []
        self.url = url
        self._port = free_port()
        self._stack = ExitStack()
        self._number = 0
        self._jumps: list[tuple[float, float]] = []
        self.receiver: Process | None = None
        self.log = LogReader(directory / "receiver.jsonl")

    def __enter__(self) -> Self:
        self.url = self.url or self.database.new()
        self._stack.enter_context(connected_to(self.url))
        self._stack.enter_context(override_settings(**self.settings))
        self._stack.callback(self.log.close)
        self.owner = get_user_model().objects.create_user("alice", pk=1)
        self.start_receiver()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    # The processes

    def environment(self, broker_url: str = "") -> dict[str, str]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.faults.settings",
            "CELERY_SKIP_CHECKS": "1",  # a quarter of a worker's start; tests/tasks starts workers that check
            "TEST_DATABASE_URL": self.url,
            "TEST_SETTINGS": json.dumps(self.settings),
            "TEST_DISK_FULL": str(self.disk_full),
            "CELERY_BROKER_URL": broker_url or self.broker.url,
        }
        if isinstance(self.broker, FolderBroker):
            environment["TEST_BROKER_DIRECTORY"] = str(self.broker.directory)
        return environment

    def start_receiver(self) -> Process:
        command = ["tests.faults.receiver", "--port", str(self._port), "--log", str(self.directory / "receiver.jsonl")]
        self.receiver = self._started(Process(command, log=self._new_log("receiver"), env=dict(os.environ)))
        wait_until(lambda: listens(self._port), lambda: self.receiver and self.receiver.output)
        return self.receiver

    def stop_receiver(self) -> None:
        """End the receiver between two requests, so that its log is complete."""
        assert self.receiver
        self.receiver.request_stop()
        self.receiver.popen.wait(30)

    def release_requests(self) -> None:
        """Let the receiver answer the held requests, and all later ones at once."""
        assert self.receiver
        self.receiver.popen.send_signal(signal.SIGUSR1)

    def start_host(self, *, broker_url: str = "") -> Host:
        host = self._started(Host(log=self._new_log("host"), env=self.environment(broker_url)))
        host.wait_until_ready()
        return host

    def start_workers(self, number: int = 1, *options: str) -> list[Process]:
        """Start ``celery worker`` processes, and wait until all are ready."""
        workers = [self._start_worker(*options) for _ in range(number)]
        for worker in workers:
            worker.wait_until_ready()
        return workers

    def start_worker(self, *options: str) -> Process:
        return self.start_workers(1, *options)[0]

    def start_beat(self) -> Process:
        schedule = str(self.directory / f"schedule-{uuid.uuid4().hex}")
        command = [
            "celery",
            "-A",
            "tests.support.celery",
            "beat",
            "--pidfile=",
            "--schedule",
            schedule,
            "--loglevel",
            "INFO",
        ]
        log = self._new_log("beat")
        beat = self._started(Process(command, log=log, env=self.environment(), ready="beat: Starting"))
        beat.wait_until_ready()
        self.beats.append(beat)
        return beat

    def _start_worker(self, *options: str) -> Process:
        name = f"w{uuid.uuid4().hex[:8]}@%h"
        command = [
            "celery",
            "-A",
            "tests.support.celery",
            "worker",
            "--concurrency",
            "1",
            "-n",
            name,
            "--loglevel",
            "INFO",
        ]
        log = self._new_log("worker")
        worker = self._started(Process([*command, *options], log=log, env=self.environment(), ready=" ready."))
        self.workers.append(worker)
        return worker

    def _new_log(self, name: str) -> Path:
        self._number += 1
        return self.directory / f"{name}-{self._number}.log"

    def _started(self, process: Any) -> Any:
        self._stack.callback(process.close)
        return process

    # Events

    def webhook(
        self, temper: str, *event_types: str, tail: str = "", url: str = "", is_new: bool = False, **fields: Any
    ) -> Webhook:
        """Return an active webhook of a receiver with this behavior. Must be called before the workers start.

        Unless it is new, its last request was fast.
        """
        webhook = make_webhook(self.owner, *event_types, url=url or self.receiver_url(temper) + tail, **fields)
        if not is_new:
            QueueLane.objects.create(webhook=webhook, is_fast=True)
        self.webhooks.append(webhook)
        self.remember_keys(webhook)
        return webhook

    def remember_keys(self, webhook: Webhook) -> None:
        self.signing_keys.setdefault(webhook.pk, set()).update(Webhook.objects.get(pk=webhook.pk).verification_keys)

    def queue(self, webhook: Webhook, number: int) -> None:
        """Create many due events for only one webhook, without emitting them."""
        now = timezone.now()
        events = [_event(new_id("evt"), self.owner, now) for _ in range(number)]
        self.queued.update(event.pk for event in Event.objects.bulk_create(events))
        deliveries = Delivery.objects.bulk_create([Delivery(event=event, webhook=webhook) for event in events])
        QueueEntry.objects.add(deliveries)

    def receiver_url(self, temper: str) -> str:
        return f"http://127.0.0.1:{self._port}/{temper}/{uuid.uuid4().hex[:8]}"

    def emit(self, host: Host, number: int, **options: Any) -> dict[str, Any]:
        host.begin(number, **options)
        return self.take_report(host)

    def take_report(self, host: Host) -> dict[str, Any]:
        """Wait until the host has emitted, and record its report of each event."""
        report = host.report()
        self.committed.update(report["committed"])
        self.keys.update(report["keys"])
        self.rolled_back.update(report["rolled_back"])
        return report

    def move_clock(self, span: timedelta) -> None:
        """Simulate a jump of the clock by moving all recorded times the other way."""
        # A worker locks the same rows in another order: after a deadlock the move is repeated.
        wait_until(lambda: asked(lambda: _moved_all_times(-span)), self.explain)
        self._jumps.append((time.time(), span.total_seconds()))

    def _shifted(self, moment: float | None) -> float | None:
        """Return a time in the receiver's log by the current clock."""
        return moment and moment - sum(seconds for jumped_at, seconds in self._jumps if moment < jumped_at)

    def kill_worker(self) -> None:
        """End a worker with SIGKILL, regardless of its current work."""
        self.workers.pop(0).kill()
        self.kills += 1

    # Evidence

    def requests(self, webhook: Webhook | None = None) -> list[dict[str, Any]]:
        """Return the receiver's data about each request for an event, without notices and handshakes."""
        internal = ("webhook.verification", "webhook.retry")
        requests = [request for request in self.log.requests() if request["event_type"] not in internal]
        if webhook is None:
            return requests
        return [request for request in requests if webhook.url.endswith(request["path"])]

    def most_at_once(self, webhook: Webhook) -> int:
        """Return the maximum number of concurrent requests to one webhook, including notices."""
        requests = [request for request in self.log.requests() if webhook.url.endswith(request["path"])]
        # The receiver notices a request after its start, and a timeout after its end.
        longest_seconds = 0.8 * self.settings["WEBHOOKS_TIMEOUT_SECONDS"]
        steps = [(request["at"], 1) for request in requests]
        steps += [(min(request.get("ended_at", inf), request["at"] + longest_seconds), -1) for request in requests]
        most = now = 0
        for _, step in sorted(steps):
            now += step
            most = max(most, now)
        return most

    def wait_for_requests(self, number: int, webhook: Webhook | None = None) -> None:
        wait_until(lambda: len(self.requests(webhook)) >= number, self.explain)

    def settle(self) -> Counts:
        """Wait until all deliveries are final or one is stuck, and return the counts."""
        wait_until(lambda: asked(self.is_over), self.explain, timeout_seconds=200)
        return self.count()

    def count(self) -> Counts:
        return count(self.evidence())

    def results(self) -> Counter[str]:
        """Return the number of deliveries of events by state."""
        return Counter(Delivery.objects.filter(kind="event").values_list("state", flat=True))

    def evidence(self) -> Evidence:
        with snapshot():
            now = time.time()
            deliveries = _deliveries()
            emitted = Event.objects.exclude(type="webhook.retry").values_list("pk", flat=True)
            events = frozenset(emitted) - self.queued
            admitted = self._admitted()
        return Evidence(
            now=now,
            committed=frozenset(self.committed),
            rolled_back=frozenset(self.rolled_back),
            events=events,
            subscribers=frozenset(webhook.pk for webhook in self.webhooks),
            deliveries=deliveries,
            hits=[
                replace(hit, at=self._shifted(hit.at), answered_at=self._shifted(hit.answered_at))
                for hit in self.log.hits()
            ],
            delays_seconds=Faults.delays_seconds,
            kills=self.kills,
            delays_by_path={
                path_of(each): ShortExtended.delays_seconds for each in self.webhooks if each.retry_policy == EXTENDED
            },
            accepts_2xx=frozenset(path_of(each) for each in self.webhooks if each.accepted_statuses == "2xx"),
            admitted=admitted,
            dishonoured=list(self._dishonoured()),
            groups=self._groups(),
        )

    def _groups(self) -> list[list[Pair]]:
        """Return the deliveries of each ordered group, in the order of emission."""
        found: dict[tuple[str, str | None], list[Pair]] = {}
        for webhook in self.webhooks:
            path = "/" + webhook.url.split("/", 3)[3]
            for event_id, key in self.keys.items():
                if webhook.order == "webhook" or (webhook.order == "key" and key):
                    group = path, key if webhook.order == "key" else None
                    found.setdefault(group, []).append((event_id, path))
        return list(found.values())

    def _admitted(self) -> dict[str, frozenset[str]]:
        """Return the events that the filters let through, by webhook with a filter."""
        filtered = [webhook.pk for webhook in self.webhooks if webhook.filter is not None]
        events = Event.objects.filter(type=EVENT_TYPE) if filtered else ()
        admitted = frozenset(event.pk for event in events if is_admitted(event.data))
        return dict.fromkeys(filtered, admitted)

    def _dishonoured(self) -> Iterator[str]:
        """Yield the choices that requests to webhooks with all choices did not honour."""
        keys = {path_of(webhook): self.signing_keys[webhook.pk] for webhook in self.webhooks if has_all(webhook)}
        for request in self.log.requests():
            if request["path"] in keys:
                yield from problems_of(request, sorted(keys[request["path"]]))

    def explain(self) -> str:
        """Return the information required for finding the cause."""
        return "\n".join(
            ["", *(f"{log.name}:\n{log.read_text()[-1500:]}" for log in self.directory.glob("worker-*.log"))]
        )

    def is_over(self) -> bool:
        """Return True once all deliveries are final, or one is stuck."""
        waiting = list(QueueEntry.objects.values_list("webhook__url", "due_at"))
        now = time.time()
        overdue = [
            (_path(url), at.timestamp())
            for url, at in waiting
            if at and is_stuck(now, due_at=at.timestamp(), last_hit_at=0)
        ]
        last = last_hits(self.log.hits()) if overdue else {}
        return not waiting or any(
            is_stuck(now, due_at=due_at, last_hit_at=self._shifted(last.get(path)) or 0) for path, due_at in overdue
        )


def _event(event_id: str, owner: Any, now: datetime) -> Event:
    body = encode(id=event_id, type=EVENT_TYPE, created=now, data={"error": "No outline"}).decode()
    return Event(id=event_id, type=EVENT_TYPE, owner=owner, body=body, created_at=now)


def path_of(webhook: Webhook) -> str:
    return _path(webhook.url)


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


@contextmanager
def snapshot() -> Iterator[None]:
    """Let all queries of the block see the rows of the same moment."""
    with transaction.atomic():
        if connection.vendor != "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _moved_all_times(span: timedelta) -> bool:
    with transaction.atomic():
        for model in (Delivery, DeliveryAttempt, Event, QueueEntry, QueueLane):
            fields = [field.name for field in model._meta.fields if isinstance(field, DateTimeField)]
            model.objects.update(**{name: F(name) + span for name in fields})
    return True


def asked(question: Callable[[], bool]) -> bool:
    """Return the result of a query, or False while the database is unavailable."""
    try:
        return question()
    except Error:
        connection.close()
        return False


@contextmanager
def connected_to(url: str) -> Iterator[None]:
    """Switch Django in this process to another database of the same kind."""
    keys = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
    settings = connection.settings_dict
    before = {key: settings[key] for key in keys}
    connection.close()
    settings.update({key: Env.db_url_config(url).get(key, "") for key in keys})
    try:
        yield
    finally:
        connections.close_all()
        settings.update(before)


def migrate(database: BaseDatabase) -> None:
    """Create the template of the other databases."""
    url = database.new()
    with connected_to(url):
        call_command("migrate", verbosity=0)
    database.keep_as_template(url)


def _deliveries() -> Sequence[DeliveryRow]:
    attempts: dict[str, list[AttemptRow]] = {}
    columns = ("delivery_id", "number", "result", "response_status", "started_at", "duration_ms")
    for delivery_id, number, result, status, started_at, milliseconds in DeliveryAttempt.objects.order_by(
        "number"
    ).values_list(*columns):
        row = AttemptRow(
            number=number,
            result=result,
            response_status=status,
            started_at=started_at.timestamp(),
            duration_seconds=None if milliseconds is None else milliseconds / 1000,
        )
        attempts.setdefault(delivery_id, []).append(row)
    return [
        DeliveryRow(
            id=delivery.pk,
            event_id=delivery.event_id or "",
            webhook_id=delivery.webhook_id,
            path=path_of(delivery.webhook),
            state=delivery.state,
            next_attempt_at=_next_attempt_at(delivery),
            kind=delivery.kind,
            is_redelivery=delivery.redelivery_of_id is not None,
            attempts=tuple(attempts.get(delivery.pk, ())),
        )
        for delivery in Delivery.objects.select_related("webhook", "queue_entry")
    ]


def _next_attempt_at(delivery: Delivery) -> float | None:
    """Return the due time of the delivery, or the end of its claim's lease, as a Unix time."""
    at = delivery.leased_until or delivery.due_at
    return at and at.timestamp()
