"""One history: workers, emitters, users and faults by a plan, until everything is final."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

from django.db import OperationalError
from greenlet import getcurrent

from webhooks_app.conf import Settings, policy_of_delivery
from webhooks_app.delivery.schedule import UNNOTIFIED_SECONDS
from webhooks_app.delivery.slots import usual_cap

from . import adapter
from .loop import Event, Killed, Loop, Process
from .plan import Action, Plan, WebhookPlan
from .receivers import Receiver, Reply, SimulatedTransport
from .referee import SETTLED_AFTER, BrokenError, Referee
from .rows import Database
from .slot_rules import JudgedSlots, slots_of
from .store import DeliveryRow, Entry, Store, Surroundings, Transaction, Webhook

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)

PROBED_UNTIL = 3 / 32
"""The part of the window that may be held beyond the first slot of each webhook before probes become rarer: half of
what probes may use of the least that is left to them, ``of_one_owner`` less ``for_few``."""

HANDSHAKES = ("ok", "ok", "slow", "slow", "uneven", "never", "fails once", "hangs", "slowly fails")
"""The behaviours of a new URL."""


class Logger:
    """The log of the workers. Nothing in a history is the reason for an error."""

    def __init__(self, world: World) -> None:
        self._world = world

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - as in logging
        return False

    def info(self, text: str, *values: object, **options: object) -> None:
        if self._world.tells:
            said = text % values if values else text
            self._world.story.append(f"{self._world.loop.now:.6f} {self._name} logs: {said}")

    debug = warning = info

    def error(self, text: str, *values: object, **options: object) -> None:
        if text.startswith("Stopped before"):
            return
        self._world.broke(BrokenError("log", text % values))

    def log(self, level: int, text: str, *values: object, **options: object) -> None:
        self.error(text, *values)

    exception = error

    @property
    def _name(self) -> str:
        return getcurrent().process.name  # type: ignore[attr-defined]


class Worker:
    """A process that delivers."""

    def __init__(self, number: int, process: Process) -> None:
        self.number, self.process = number, process
        self.engine: Any = None
        self.is_leaving = False
        """True once it was asked to stop."""
        self.troubled_until = 0.0
        """Until when it may be cut off from what others see: frozen, or without the database."""


class World(Surroundings):
    def __init__(self, plan: Plan, *, tells: bool = False) -> None:
        self.plan = plan
        self.loop = Loop()
        self.random = Random(plan.seed + 1)
        self.delays = Random(plan.seed + 2)
        self.store = Store(self, has_single_writer=plan.database == "sqlite")
        self.store.slow_claims_apart = timedelta(seconds=0.25 if plan.database == "sqlite" else 0.0)
        self.store.changes_are_free = plan.database == "sqlite"
        self.store.signer = adapter.Signer()
        self.database = Database(self.store, self.now)
        self.settings = SimpleNamespace(
            **{name: value for name, value in vars(Settings).items() if name.isupper()},
        )
        self.settings.__dict__.update(
            MAX_IN_FLIGHT=plan.window,
            MAX_IN_FLIGHT_PER_WEBHOOK=plan.cap,
            BATCH_SIZE=plan.batch_size,
            TIMEOUT_SECONDS=plan.timeout,
            LEASE_SECONDS=plan.lease,
            RETRY_NOTICES=False,
        )
        self.logger = Logger(self)
        self.tells, self.story = tells, list[str]()
        self.digest = hashlib.blake2b(digest_size=8)
        self.pids = 0
        self.sessions: set[Any] = set()
        self.listeners: list[Any] = []
        self.connections: dict[Any, adapter.Connection] = {}
        self.numbers = 0
        self.statements = 0
        self.counts: Counter[str] = Counter()
        """The statements and commits so far, by kind."""
        self.jumped_at, self.jumped_by = 0.0, 0.0
        """When the clocks of the database and of its only worker jumped, and by how many seconds."""
        self.away_until = self.slow_until = self.deaf_until = self.quiet_until = 0.0
        self.database_up_since = 0.0
        self.lock_released = Event(self.loop)
        self.workers: list[Worker] = []
        self.processes: dict[int, Process] = {}
        """All workers so far, by number."""
        self.receivers: dict[str, Receiver] = {}
        self.app = Process(self.loop, "app")
        self.keys: dict[str, str | None] = {}
        self.deliveries = 0
        self.is_over = False
        self.begin = BEGIN
        self.last_trouble, self.had_trouble, self.had_bad_clock = -1e9, False, False
        self.busy_at = -1e9
        """When a worker had not much room last."""
        self.crowded_at = -1e9
        """When a worker had so many requests beyond the first of each webhook that probes become rarer."""
        self.quiet_until = 0.0
        """Until when notifications are suspended."""
        self.cap = usual_cap(plan.window, plan.cap)
        self.referee = Referee(self)

    # Time, words and numbers

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.loop.now + self.jumped_by)

    def real(self, at: datetime) -> float:
        """Return the time of the loop at which the database's clock shows this."""
        seconds = (at - BEGIN).total_seconds()
        if not self.jumped_by or seconds <= self.jumped_at:
            return seconds
        return max(self.jumped_at, seconds - self.jumped_by)

    def tell(self, text: str, *values: object) -> None:
        """Add a line to the story, and to the digest of the history."""
        line = f"{self.loop.now:.6f} {text % values if values else text}"
        self.digest.update(line.encode())
        if self.tells:
            self.story.append(line)

    def broke(self, error: BrokenError) -> None:
        """End the history. The code under test may have caught the error."""
        self.loop.error = self.loop.error or error

    def judge(self, judge: Any, *arguments: Any) -> Any:
        try:
            return judge(*arguments)
        except BrokenError as error:
            self.broke(error)
            raise

    def next_worker_number(self) -> int:
        return self._starting.number

    def name(self, process: Process) -> str:
        return process.name

    # What happens around statements

    def connection_of(self, thread: Any) -> adapter.Connection:
        found = self.connections.get(thread)
        if found is None:
            found = self.connections[thread] = adapter.Connection(self, thread.process)
        return found

    def before(self, what: str) -> None:
        thread = getcurrent()
        process = getattr(thread, "process", None)
        if process is None:  # the referee, or the beginning
            return
        if process.is_dead:
            raise Killed
        self._pause(before=True)
        self._meet_faults(what, process, thread)

    def before_commit(self, what: str) -> None:
        thread = getcurrent()
        if process := getattr(thread, "process", None):
            if process.is_dead:
                raise Killed
            self._meet_faults(f"commit of {what}", process, thread)

    def _meet_faults(self, what: str, process: Process, thread: Any) -> None:
        self.statements += 1
        if self.away_until > self.loop.now or process.cut_off_until > self.loop.now:
            self.connection_of(thread).close()
            self._trouble(process)
            raise OperationalError("the database is away")
        self.connection_of(thread).open()
        fault = self.plan.statement_faults.get(self.statements)
        if self.plan.kind_faults:
            self.counts[what] += 1
            fault = fault or self.plan.kind_faults.get((what, self.counts[what]))
        if fault and self.loop.now < self.plan.end:
            self._strike(fault, what, process, thread)

    def _strike(self, fault: str, what: str, process: Process, thread: Any) -> None:
        if fault == "fails":
            self.tell("%s: %s fails", process.name, what)
            self.connection_of(thread).close()
            self._trouble(process)
            raise OperationalError(f"{what} fails")
        if fault == "kill before":
            self.tell("%s is killed before: %s", process.name, what)
            self.kill(process)
        elif fault == "slow" and not what.startswith("commit"):
            self.tell("%s: %s takes 3 s", process.name, what)
            self._trouble(process)
            self.loop.sleep(3.0)
        elif fault == "late":
            if what.startswith("commit of claim"):
                self.tell("%s: %s fails, and takes place later", process.name, what)
                self.store.open_transaction().commits_after = 0.3 + 3.0 * self.delays.random()
                self.connection_of(thread).close()
                self._trouble(process)
                raise OperationalError(f"{what} fails")
        else:
            process.struck = fault

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self.loop.after(seconds, call)

    def after(self, what: str) -> None:
        thread = getcurrent()
        process = getattr(thread, "process", None)
        if process is None:
            return
        fault, process.struck = "" if self.is_over else process.struck, ""
        if fault == "kill after":
            self.tell("%s is killed after: %s", process.name, what)
            self.kill(process)
        elif fault == "unacknowledged":
            self.tell("%s: %s is not acknowledged", process.name, what)
            self.connection_of(thread).close()
            self._trouble(process)
            raise OperationalError(f"{what} is not acknowledged")
        elif fault.startswith("freeze"):
            seconds = (3.0 + 5.0 * self.delays.random()) if fault == "freeze" else 10.0 + 20.0 * self.delays.random()
            self._freeze_process(process, seconds)
            if self.delays.random() < 0.5:
                self._cut_sessions(process)
            self.loop.sleep(0.0)
        self._pause(before=False)

    def _pause(self, *, before: bool) -> None:
        draw = self.delays.random()
        if self.slow_until > self.loop.now:
            self.loop.sleep(draw * 0.5)
        elif draw < 0.5:
            self.loop.sleep(0.0002 + 0.002 * draw)
        elif draw > 0.995:
            self.loop.sleep(0.05)

    def wait_for_locks(self) -> None:
        self.lock_released.clear()
        self.lock_released.wait(60.0)

    def released(self) -> None:
        self.lock_released.set()

    def committed(self, transaction: Transaction) -> None:
        self.judge(self.referee.committed, transaction)
        if self.store.has_single_writer and transaction.touched:
            mine = getattr(getcurrent(), "process", None)
            for listener in self.listeners:
                if listener.process is not mine and not listener.process.is_dead:
                    self.loop.after(0.04 * self.delays.random(), partial(listener.notify, [], more_follow=False))

    def announce(self, webhook_ids: list[str]) -> None:
        """Notify the workers of a commit, or wake them by a message. Either may be lost, late or doubled."""
        if self.store.has_single_writer or not self._is_heard():
            return
        more_follow = self.plan.suspends and self.delays.random() < 0.5
        if more_follow:
            self.quiet_until = self.loop.now + UNNOTIFIED_SECONDS
        for worker in self.workers:
            if worker.process.is_dead:
                continue
            seconds = 0.0005 + 0.002 * self.delays.random()
            if self.plan.notifies:
                for listener in self.listeners:
                    if listener.process is worker.process:
                        self.loop.after(seconds, partial(listener.notify, webhook_ids, more_follow=more_follow))
                        if self.delays.random() < 0.05:
                            late = partial(listener.notify, webhook_ids, more_follow=more_follow)
                            self.loop.after(seconds + 0.3, late)
            else:
                self.loop.after(seconds, partial(self._wake, worker))

    def _is_heard(self) -> bool:
        if self.deaf_until > self.loop.now:
            self.tell("a notification is lost")
            return False
        return self.loop.now >= self.quiet_until  # before, notifications are suspended

    def _wake(self, worker: Worker) -> None:
        if not worker.process.is_dead and worker.engine is not None:
            worker.engine.wake()

    # Processes

    def start_worker(self, number: int) -> Worker:
        self.numbers += 1
        process = Process(self.loop, f"worker {number}")
        process.cut_off_until, process.struck, process.has_ended, process.has_bad_clock = 0.0, "", False, False
        process.was_frozen_for, process.absent_at = 0.0, self.loop.now
        worker = Worker(1000 * number + self.numbers, process)
        self.processes[worker.number] = process
        process.worker = worker
        self.workers = [each for each in self.workers if not each.process.is_dead and not each.process.has_ended]
        self.workers.append(worker)
        self.listeners = [each for each in self.listeners if not each.process.is_dead]
        self.tell("%s starts", process.name)

        def run() -> None:
            while True:  # a supervisor restarts it after an error
                try:
                    self._starting = worker
                    worker.transport = SimulatedTransport(process, self, self.plan.window)
                    worker.engine = adapter.engine_of(worker.transport)
                    self.deliver(worker.engine)
                except OperationalError:
                    self.tell("%s: the engine ends with an error", process.name)
                    process.absent_at = self.loop.now
                    self.loop.sleep(1.0)
                else:
                    self.tell("%s ends", process.name)
                    process.has_ended = True
                    return

        process.start(run)
        return worker

    def deliver(self, engine: Any) -> None:
        engine.run()

    def kill(self, process: Process) -> None:
        self._trouble(process)
        if process is self.app:
            raise Killed
        for thread in process.threads:
            if connection := self.connections.pop(thread, None):
                connection.close()
        self._abort(process)
        if worker := process.worker:
            if getattr(worker, "transport", None):
                worker.transport.close()
            number = int(process.name.split()[1])
            seconds = 0.2 + 3 * self.delays.random()
            self.loop.after(seconds, lambda: self.is_over or self.start_worker(number))
        self.referee.died(process)
        process.kill()

    def _abort(self, process: Process) -> None:
        """Roll back the transactions of a dead process."""
        for thread in process.threads:
            if transaction := self.store._open.get(thread):
                self.store.abort(transaction)
        self.released()

    def _trouble(self, process: Process) -> None:
        """Note that delays, lost claims and duplicates are expected for a while."""
        self.last_trouble, self.had_trouble = self.loop.now, True
        if worker := getattr(process, "worker", None):
            worker.troubled_until = max(worker.troubled_until, self.loop.now + self.plan.lease + 30.0)

    # Requests

    def began(self, process: Process, request: Any) -> Reply:
        claim = request.context.claim
        number = self.judge(self.referee.began, process, request)
        url = request.url
        reply = self.receivers[url].reply(self.delays, number)
        if self.is_over and reply.seconds > 1.0:
            reply = Reply(0.05, 200)
        self.tell("%s: request %d of %s to %s", process.name, claim.number, claim.delivery_id, url)
        return reply

    def ended(self, process: Process, request: Any, reply: Reply) -> None:
        claim = request.context.claim
        self.tell("%s: %s of %s: %s", process.name, claim.number, claim.delivery_id, reply.error or reply.status)
        self.judge(self.referee.ended, process, request, reply)

    def note_use(self, slots: JudgedSlots) -> None:
        """Note if a worker has not much room now. It is called before each change."""
        if slots.free < self.plan.window * 0.75:
            self.busy_at = self.loop.now
        if slots.beyond > self.plan.window * PROBED_UNTIL:
            self.crowded_at = self.loop.now

    def note_use_of_others(self, process: Process) -> None:
        for worker in self.workers:
            if worker.process is not process and not worker.process.is_dead and worker.engine is not None:
                self.note_use(slots_of(worker.engine))

    def postpones(self, request: Any) -> bool:
        """Return True if the transport has a reason to send a handshake or a test later."""
        return self.plan.postpones and not self.is_over and bool(request.probe) and self.delays.random() < 0.4

    # Emitters and users

    def _add_webhook(self, number: int, plan: WebhookPlan) -> Webhook:
        pk, url = f"wh_{number + 1:032x}", f"https://r{number}/{plan.behaviour.replace(' ', '-')}"
        webhook = Webhook(
            pk,
            f"owner{plan.owner}",
            url,
            status=plan.status,
            max_in_flight=plan.max_in_flight,
            rate_limit=plan.rate_limit,
            order=plan.order,
            accepted_statuses=plan.accepted,
            retry_policy=plan.policy,
        )
        self.store.webhooks[pk] = webhook
        self.receivers[url] = Receiver(plan.behaviour)
        self.referee.added(webhook)
        return webhook

    def emit(self, webhook: Webhook, value: float, kind: str = "event") -> None:
        """Queue a delivery as the outbox does: it takes a place before the commit, which may be late."""
        if kind == "event" and (webhook.status != "active" or webhook.deleted_at is not None):
            return
        with self.store.writing("emission") as transaction:
            key = {"webhook": "", "key": "ab"[int(value * 100) % 2]}.get(webhook.order) if kind == "event" else None
            place = None
            if key is not None:
                self.store.places += 1
                place = self.store.places
            if int(value * 1000) % 5 == 0 and not self.store.has_single_writer:
                self.loop.sleep(value * 0.2)  # the transaction is long
            self._queue(webhook, kind, key, place)
            if int(value * 10_000) % 20 == 0:
                self.tell("an emission is rolled back")
                raise OperationalError("rolled back")
            transaction.on_commit.append(lambda: self.announce([webhook.pk] if value < 0.8 else []))

    def _queue(self, webhook: Webhook, kind: str, key: str | None, place: int | None) -> None:
        self.deliveries += 1
        pk, event = f"dlv_{self.deliveries:032x}", f"evt_{self.deliveries:032x}"
        policy = policy_of_delivery(webhook.retry_policy) if kind != "retry_notice" else None
        attempts = policy.max_attempts if policy else 1
        if kind == "verification":
            event = None
        else:
            self.store.bodies[event] = b"{}"
            self.keys[event] = key
        expires_at = self.now() + timedelta(seconds=5) if kind == "retry_notice" else None
        self.store.add(
            DeliveryRow(pk, webhook.pk, event, kind),
            Entry(
                pk,
                webhook.pk,
                event,
                kind,
                self.now(),
                attempts,
                expires_at,
                webhook.retry_policy,
                order_key=key,
                place=place,
            ),
        )
        self.tell("%s for %s is queued as %s%s", kind, webhook.pk, pk, f", place {place}" if place else "")

    def _queue_first(self, webhook: Webhook) -> None:
        with self.store.writing():
            self._queue(webhook, "verification", None, None)

    def act(self, action: Action) -> None:
        self.app.start(partial(self._act, action))

    def _act(self, action: Action) -> None:
        do = getattr(self, "do_" + action.what.replace(" ", "_"))
        with suppress(OperationalError):
            do(action)

    def _target(self, action: Action) -> Webhook:
        webhooks = list(self.store.webhooks.values())
        return webhooks[action.target % len(webhooks)]

    def _worker(self, action: Action) -> Worker | None:
        alive = [each for each in self.workers if not each.process.is_dead and not each.process.has_ended]
        return alive[action.target % len(alive)] if alive else None

    def do_emit(self, action: Action) -> None:
        kind = "event"
        if action.value > 0.97:
            kind = "retry_notice"
        self.emit(self._target(action), action.value, kind)

    def do_test(self, action: Action) -> None:
        webhook = self._target(action)
        if webhook.status != "disabled" and webhook.deleted_at is None and webhook.paused_at is None:
            self.emit(webhook, action.value, "test")

    def change(self, webhook: Webhook, text: str, **values: Any) -> None:
        """Change a webhook as its user does, with its row locked, unless it has been changed meanwhile."""
        seen = webhook.status, webhook.paused_at, webhook.deleted_at, webhook.pending_url
        with self.store.writing("change of a webhook") as transaction:
            self.store.lock("webhook", [webhook.pk])
            # All locks before the first write, which others would see.
            self.store.ensure_lanes([webhook.pk])
            self.store.lock("lane", [webhook.pk])
            self.store.lock("entry", self.store.of_webhook.get(webhook.pk, ()))
            if seen != (webhook.status, webhook.paused_at, webhook.deleted_at, webhook.pending_url):
                return
            if self.is_over and values.get("paused_at"):
                return  # the lock came after the faults ended, and nobody would resume the webhook
            self.tell("the user: %s %s", text, webhook.pk)
            self.store.change(webhook, **values)
            if values.get("status") == "disabled" or values.get("deleted_at"):
                self.store.cancel_stopped(webhook, 500, self.now())
            if "order" in values:
                self.store.sort_again(webhook, self.keys, self.now())
            if values.get("status") == "pending" or values.get("pending_url"):
                self._queue(webhook, "verification", None, None)
            transaction.on_commit.append(lambda: self.announce([]))

    def do_pause(self, action: Action) -> None:
        webhook = self._target(action)
        if webhook.status == "active" and webhook.paused_at is None and webhook.deleted_at is None:
            self.change(webhook, "pauses", paused_at=self.now())

    def do_resume(self, action: Action) -> None:
        for webhook in self.store.webhooks.values():
            if webhook.paused_at is not None:
                self.change(webhook, "resumes", paused_at=None)

    def do_disable(self, action: Action) -> None:
        webhook = self._target(action)
        if webhook.status != "disabled":
            self.change(webhook, "disables", status="disabled", paused_at=None, pending_url="")

    def do_enable(self, action: Action) -> None:
        webhook = self._target(action)
        if webhook.status in ("disabled", "failed") and webhook.deleted_at is None:
            self.change(webhook, "enables", status="pending")

    def do_delete(self, action: Action) -> None:
        webhook = self._target(action)
        if webhook.deleted_at is None and action.value < 0.5:
            self.change(webhook, "deletes", deleted_at=self.now(), paused_at=None, pending_url="")

    def do_change_url(self, action: Action) -> None:
        webhook = self._target(action)
        url = f"https://r{action.target}-{action.value:.4f}/ok"
        self.receivers[url] = Receiver(HANDSHAKES[int(action.value * 97) % len(HANDSHAKES)])
        if webhook.status == "active" and webhook.deleted_at is None:
            self.change(webhook, f"changes to {url}", pending_url=url)

    def do_start_again(self, action: Action) -> None:
        """Disable a webhook, and enable it at once: it awaits another handshake with the same URL."""
        self.do_disable(action)
        self.do_enable(action)

    def do_limit(self, action: Action) -> None:
        self.change(self._target(action), "limits", max_in_flight=(None, 1, 2, 8)[int(action.value * 4)])

    def do_rate(self, action: Action) -> None:
        self.change(self._target(action), "changes the rate of", rate_limit=(None, 2.0, 5.0)[int(action.value * 3)])

    def do_order(self, action: Action) -> None:
        webhook = self._target(action)
        self.change(webhook, "changes the order of", order=("none", "webhook", "key")[int(action.value * 3)])

    def do_retry_now(self, action: Action) -> None:
        webhook = self._target(action)
        waiting = [
            entry
            for entry in self.store.of_webhook.get(webhook.pk, {}).values()
            if entry.claimed_at is None and entry.due_at and entry.due_at > self.now()
        ]
        if waiting:
            entry = waiting[int(action.value * len(waiting))]
            with self.store.writing("retry now") as transaction:
                self.store.lock("entry", [entry.pk])
                if entry.pk in self.store.entries and entry.claimed_at is None and entry.due_at:
                    self.tell("the user retries %s now", entry.pk)
                    self.store.change(entry, due_at=self.now())
                    self.referee.hastened(entry.pk)
                transaction.on_commit.append(lambda: self.announce([webhook.pk]))

    def do_redeliver(self, action: Action) -> None:
        final = [each for each in self.store.deliveries.values() if each.state != "pending" and each.event]
        if final:
            webhook = self.store.webhooks[final[action.target % len(final)].webhook]
            if webhook.status == "active" and webhook.deleted_at is None:
                self.emit(webhook, action.value)

    def do_behaviour(self, action: Action) -> None:
        from .receivers import BEHAVIOURS

        url = self._target(action).url
        self.receivers[url].behaviour = sorted(BEHAVIOURS)[int(action.value * len(BEHAVIOURS))]
        self.tell("%s now: %s", url, self.receivers[url].behaviour)

    # Faults

    def do_kill(self, action: Action) -> None:
        if worker := self._worker(action):
            self.tell("%s is killed", worker.process.name)
            self.kill(worker.process)

    def do_stop(self, action: Action) -> None:
        worker = self._worker(action)
        if worker and worker.engine is not None:
            self.tell("%s is asked to stop", worker.process.name)
            worker.is_leaving = True
            worker.engine.stop()
            self.loop.sleep(1.0)
            self.start_worker(int(worker.process.name.split()[1]))

    def _freeze(self, action: Action, seconds: float) -> None:
        if worker := self._worker(action):
            self._freeze_process(worker.process, seconds)

    def _freeze_process(self, process: Process, seconds: float) -> None:
        self.tell("%s is frozen for %.1f s", process.name, seconds)
        process.frozen_until = max(process.frozen_until, self.loop.now + seconds)
        process.was_frozen_for += seconds
        process.absent_at = self.loop.now + seconds
        self._trouble(process)
        process.worker.troubled_until += seconds

    def do_freeze(self, action: Action) -> None:
        self._freeze(action, 0.1 + 3 * action.value)

    def do_freeze_long(self, action: Action) -> None:
        self._freeze(action, 10 + (self.plan.lease + 10) * action.value)

    def _away(self, seconds: float) -> None:
        self.tell("the database is away for %.1f s", seconds)
        self.away_until = self.loop.now + seconds
        for worker in self.workers:
            self._trouble(worker.process)
            worker.process.absent_at = self.loop.now + seconds
            worker.troubled_until += seconds
        for connection in self.connections.values():
            connection.close()
        self.loop.sleep(seconds)
        self.database_up_since = self.loop.now
        for worker in self.workers:
            self._trouble(worker.process)

    def do_database_away(self, action: Action) -> None:
        self._away(0.1 + 2 * action.value)

    def do_database_away_long(self, action: Action) -> None:
        self._away(5 + 60 * action.value)

    def do_slow_database(self, action: Action) -> None:
        self.tell("the database is slow")
        self.slow_until = self.loop.now + 3 * action.value
        for worker in self.workers:
            self._trouble(worker.process)

    def do_cut_off(self, action: Action) -> None:
        if worker := self._worker(action):
            seconds = 1 + 30 * action.value
            self.tell("%s is cut off from the database for %.1f s", worker.process.name, seconds)
            worker.process.cut_off_until = worker.process.absent_at = self.loop.now + seconds
            self._trouble(worker.process)
            worker.troubled_until += seconds
            self._cut_sessions(worker.process)

    def _cut_sessions(self, process: Process) -> None:
        for thread in process.threads:
            self.connection_of(thread).close()

    def do_clocks_jump(self, action: Action) -> None:
        """Set the clock of the machine of the database and its only worker, at most once."""
        if self.plan.workers == 1 and not self.jumped_by and (worker := self._worker(action)):
            self.jumped_at, self.jumped_by = self.loop.now, 20.0 + 100.0 * action.value
            self.tell("the clocks of the database and %s jump by %.0f s", worker.process.name, self.jumped_by)
            worker.process.offset += self.jumped_by
            self.last_trouble, self.had_trouble = self.loop.now, True

    def do_notifications_lost(self, action: Action) -> None:
        self.deaf_until = self.loop.now + 5 * action.value
        self.last_trouble, self.had_trouble = self.deaf_until, True

    def do_clock_jump(self, action: Action) -> None:
        if worker := self._worker(action):
            seconds = 7200 * (action.value - 0.5)
            self.tell("the clock of %s jumps by %.0f s", worker.process.name, seconds)
            worker.process.offset += seconds
            self._trouble(worker.process)

    def do_clock_rate(self, action: Action) -> None:
        if worker := self._worker(action):
            rate = 0.9 if action.value < 0.5 else 1.1
            self.tell("the clocks of %s run at %s", worker.process.name, rate)
            worker.process.change_rate(rate)
            worker.process.has_bad_clock = self.had_bad_clock = True
            self._trouble(worker.process)

    # A history

    def run(self) -> None:
        """Run the history. Raise BrokenError if an invariant is broken."""
        plan = self.plan
        self.app.cut_off_until, self.app.struck, self.app.worker, self.app.is_troubled = 0.0, "", None, False
        with adapter.substituted(self.database, adapter.names_for(self)):
            try:
                for number, webhook_plan in enumerate(plan.webhooks):
                    webhook = self._add_webhook(number, webhook_plan)
                    if webhook.status == "pending":
                        self._queue_first(webhook)
                for number in range(plan.workers):
                    self.start_worker(number + 1)
                for action in plan.actions:
                    self.loop.after(action.at, partial(self.act, action))
                self.loop.run(plan.end)
                self._heal()
                self.loop.run(self.loop.now + 0.5)  # the last transactions end
                bound = self.loop.now + self.referee.bound()
                while self.store.entries and self.loop.now < bound:
                    self.loop.run(min(bound, self.loop.now + 0.5))
                self.referee.final()
                self.loop.run(self.loop.now + SETTLED_AFTER)
                self.referee.quiet()
            finally:
                self._forget()

    def _heal(self) -> None:
        """End all faults, let all receivers answer, and undo what holds deliveries."""
        if not self.had_bad_clock and not self.jumped_by:
            self.referee.noticed()
        self.is_over = True
        self.tell("the faults end")
        self.away_until = min(self.away_until, self.loop.now)
        self.slow_until = self.deaf_until = 0.0
        for receiver in self.receivers.values():
            receiver.behaviour = "ok"
        for worker in self.workers:
            worker.process.cut_off_until = 0.0
            worker.process.change_rate(1.0)
            self._trouble(worker.process)
        running = [each for each in self.workers if not each.process.is_dead and not each.process.has_ended]
        alive = {each.process.name for each in running if not each.is_leaving}
        for number in range(self.plan.workers):
            if f"worker {number + 1}" not in alive:
                self.start_worker(number + 1)
        self.act(Action(0.0, "resume"))

    def _forget(self) -> None:
        """End all threads, so that nothing refers to the history."""
        self.loop.end()
        for worker in self.workers:
            worker.process.is_dead = True
        self.app.is_dead = True
        for process in [*(worker.process for worker in self.workers), self.app]:
            for thread in list(process.threads):
                if thread and not thread.dead:
                    with suppress(BaseException):  # its end is not part of the history
                        thread.throw(Killed)
