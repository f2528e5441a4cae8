"""Looking at everything that delivery stands on, and saying what is wrong with it and what to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core import checks
from django.db import DatabaseError, InterfaceError, connections, router
from django.db.migrations.executor import MigrationExecutor

from .conf import settings
from .database.clock import DatabaseClock
from .database.dialects import dialect_of
from .delivery.overdue import oldest_due_at
from .maintenance.runner import BEAT
from .models import Delivery, MaintenanceJob, WorkerProcess
from .outbound import configured_transport, transport_options
from .plurals import counted
from .transport import TransportError
from .transport.guard import AddressGuard
from .wake.registry import WAKES, chosen_path, uses_celery

BROKER_SECONDS = 2.0
"""How long the broker may take to answer."""

CLOCK_WARNING, CLOCK_ERROR = timedelta(seconds=2), timedelta(seconds=60)
"""Receivers refuse a signature that is some minutes off; before that, times in the log mislead."""

DUE_WARNING, DUE_ERROR = timedelta(seconds=30), timedelta(minutes=5)
"""How late the most overdue delivery may be, beside a few sweeps."""

SWEEP_TASK, PRUNE_TASK = "webhooks_app.deliver_due", "webhooks_app.prune"

SEEN_WITHIN = timedelta(minutes=1)
"""Workers report themselves every few seconds, and beat sends its messages about as often."""

OURS = "webhooks_app."
BEAT_CHECK, KEYS_CHECK = "webhooks_app.W003", "webhooks_app.W009"

MUST_REFUSE = (
    "0.0.0.0",  # noqa: S104 - an address to be refused
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
)
"""Loopback, private networks, link-local, what clouds tell their machines' secrets on, and disguises of these."""

METADATA = frozenset(("100.100.100.200", "168.63.129.16", "169.254.169.254", "fd00:ec2::254"))
"""Where clouds answer with a machine's credentials: nobody has a webhook there."""


class Level(Enum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What one look showed; ``hint`` says what to do about it."""

    name: str
    level: Level
    found: str
    hint: str = ""


def examine() -> list[Finding]:
    """Examine everything once, and return the findings in the order in which they are best corrected."""
    findings = [*_examined("settings", _settings), *_examined("transport", _transport), *_examined("guard", _guard)]
    findings += _examined("wake", _wake)
    if uses_celery():
        findings += _examined("broker", _broker)
    findings += (database := _examined("database", _database))
    if any(finding.level is Level.ERROR for finding in database):
        return findings
    rest = {
        "clock": _clock,
        "keys": _keys,
        "workers": _workers,
        "jobs": _jobs,
        "due": _due,
        **({"beat": _beat} if uses_celery() else {}),
    }
    return [*findings, *(finding for name, look in rest.items() for finding in _examined(name, look))]


def worst(findings: Sequence[Finding]) -> Level:
    """Return the level of the gravest finding."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.ERROR, Level.WARNING) if level in levels), Level.OK)


def _examined(name: str, look: Callable[[str], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(look(name))
    except Exception as error:  # noqa: BLE001 - what is broken may raise anything, and the other looks go on
        # Not what the error says: a setting that cannot be used may be a secret.
        found = f"This could not be looked at ({type(error).__name__})."
        return [_error(name, found, "Fix the other findings, then run this again.")]


def _ok(name: str, found: str) -> Finding:
    return Finding(name=name, level=Level.OK, found=found)


def _warning(name: str, found: str, hint: str) -> Finding:
    return Finding(name=name, level=Level.WARNING, found=found, hint=hint)


def _error(name: str, found: str, hint: str) -> Finding:
    return Finding(name=name, level=Level.ERROR, found=found, hint=hint)


def _settings(name: str) -> Iterator[Finding]:
    """Pass on what our system checks say, those of a deployment too where DEBUG is off. Beat is looked at below."""
    messages = [
        message
        for message in checks.run_checks(tags=["webhooks"], include_deployment_checks=not django_settings.DEBUG)
        if _is_ours(message) and message.id != BEAT_CHECK
    ]
    yield from (_of_check(message) for message in messages)
    if not messages:
        yield _ok(name, "The system checks have nothing to say.")


def _is_ours(message: checks.CheckMessage) -> bool:
    return str(message.id).startswith(OURS) and not message.is_silenced()


def _of_check(message: checks.CheckMessage) -> Finding:
    level = Level.ERROR if message.level >= checks.ERROR else Level.WARNING
    return Finding(name=str(message.id), level=level, found=str(message.msg), hint=str(message.hint or ""))


def _transport(name: str) -> Iterator[Finding]:
    try:
        transport = configured_transport()
    except ValueError as error:
        yield _error(name, f"WEBHOOKS_TRANSPORT cannot be used: {error}", "Name one that is installed.")
        return
    transport.close()
    yield _ok(name, f"Requests are sent by {transport.name!r}.")


def _guard(name: str) -> Iterator[Finding]:
    """Ask the guard that the workers have, with the settings in force."""
    options = transport_options()
    guard = AddressGuard(options)
    reachable = [
        address for address in MUST_REFUSE if not isinstance(guard.check_answer("doctor", [address]), TransportError)
    ]
    networks = ", ".join(map(str, options.allowed_networks))
    metadata = [address for address in reachable if address in METADATA]
    if metadata:
        found = f"A webhook can reach {', '.join(metadata)}, where clouds give out a machine's credentials."
        yield _error(name, found, "Take the network that holds this address out of WEBHOOKS_ALLOWED_NETWORKS.")
    elif reachable and not networks:
        found = f"A webhook can reach {', '.join(reachable)}, which no setting allows."
        yield _error(name, found, "Something has replaced the guard's table: install the package anew.")
    else:
        refused = f"{len(MUST_REFUSE) - len(reachable)} of {len(MUST_REFUSE)} addresses that must not be reached are"
        yield _ok(name, f"{refused} refused" + (f"; the settings allow {networks}." if networks else "."))


def _wake(name: str) -> Iterator[Finding]:
    path = chosen_path()
    found = next((short for short, full in WAKES.items() if full == path), path)
    how = "Workers notice commits by themselves." if found == "none" else f"Workers are woken by {found!r}."
    yield _ok(name, how)


def _celery() -> Any:
    from celery import current_app  # noqa: PLC0415 - only where the host uses it

    return current_app


def _broker(name: str) -> Iterator[Finding]:
    connection = _celery().connection_for_write()
    shown = connection.as_uri()  # the password is masked in it
    problem = _problem_of_connecting(connection)
    if problem:
        hint = "Start the broker, or fix CELERY_BROKER_URL. Meanwhile nothing is lost: it waits in the database."
        yield _error(name, f"{shown} does not answer: {problem}.", hint)
    else:
        yield _ok(name, f"{shown} answers.")


def _problem_of_connecting(connection: Any) -> str:
    """Return why the broker cannot be reached, or "". In a thread, because not every client library keeps to a time."""
    outcome: SimpleQueue[str] = SimpleQueue()

    def ask() -> None:
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=BROKER_SECONDS)
            connection.default_channel  # noqa: B018 - some transports connect only when they are used
        except Exception as error:  # noqa: BLE001 - each client library raises its own
            outcome.put(str(error) or type(error).__name__)
        else:
            outcome.put("")
        finally:
            connection.release()

    threading.Thread(target=ask, name="webhooks_app.doctor", daemon=True).start()
    try:
        return outcome.get(timeout=BROKER_SECONDS * 1.5)
    except Empty:
        return f"no answer within {BROKER_SECONDS * 1.5:g} s"


def _database(name: str) -> Iterator[Finding]:
    connection = connections[_using()]
    try:
        executor = MigrationExecutor(connection)
    except (DatabaseError, InterfaceError) as error:
        yield _error(name, f"It does not answer: {str(error).strip()}", "Start it, or fix DATABASES.")
        return
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "webhooks_app"]
    if executor.migration_plan(leaves):
        yield _error(name, "Its tables are not those of this version.", "Run `manage.py migrate webhooks_app`.")
    else:
        yield _ok(name, f"{connection.display_name} ({connection.alias}) answers and has the tables.")


def _clock(name: str) -> Iterator[Finding]:
    """Compare with the database, which decides what is due; a signature has the time of the process that sends."""
    if dialect_of(_using()).now_sql is None:
        yield _ok(name, f"{connections[_using()].display_name} uses this machine's clock.")
        return
    asked, started = datetime.now(UTC), time.monotonic()
    database = DatabaseClock(_using())()
    took = timedelta(seconds=time.monotonic() - started)
    ahead = max(timedelta(), abs(asked + took / 2 - database) - took / 2)
    found = f"This machine and the database are {ahead.total_seconds():.1f} s apart."
    hint = "Keep the clocks of both in time by NTP: receivers refuse signatures whose time is minutes off."
    if ahead <= CLOCK_WARNING:
        yield _ok(name, found)
    else:
        yield (_warning if ahead <= CLOCK_ERROR else _error)(name, found, hint)


def _keys(name: str) -> Iterator[Finding]:
    """Open the secrets of the oldest webhooks and of the newest, as the check does that `migrate` runs."""
    messages = checks.run_checks(tags=[checks.Tags.database], databases=[_using()])
    unreadable = [message for message in messages if message.id == KEYS_CHECK]
    yield from (_error(name, str(message.msg), str(message.hint)) for message in unreadable)
    if not unreadable:
        yield _ok(name, "The encryption keys open the stored secrets.")


def _workers(name: str) -> Iterator[Finding]:
    now = DatabaseClock(_using())()
    seen_at = list(WorkerProcess.objects.using(_using()).order_by("-seen_at").values_list("seen_at", flat=True)[:1000])
    alive = [moment for moment in seen_at if now - moment < SEEN_WITHIN]
    if alive:
        yield _ok(name, counted(len(alive), "process delivers.", "processes deliver."))
        return
    last = f"the last reported itself at {seen_at[0]:%F %T} UTC" if seen_at else "none ever reported itself"
    found = f"No process delivers: {last}."
    yield _error(
        name, found, "Start a Celery worker, or `manage.py deliver_webhooks`. What is emitted waits until then."
    )


def _jobs(name: str) -> Iterator[Finding]:
    """Pass on what went wrong with what the workers do beside delivering."""
    failed = MaintenanceJob.objects.using(_using()).exclude(error="")
    for job, error in failed.values_list("name", "error"):
        yield _warning(name, f"The job {job!r} failed: {error}", "The log of the workers has the whole error.")
    if not failed:
        yield _ok(name, "No job of the workers failed when it was done last.")


def _due(name: str) -> Iterator[Finding]:
    """Find how late the most overdue delivery is: it grows where nobody delivers."""
    now = DatabaseClock(_using())()
    due_at = oldest_due_at(_using(), now)
    late = now - due_at if due_at else timedelta()
    sweeps = timedelta(seconds=3 * settings.SWEEP_SECONDS)
    if due_at is None or late < max(DUE_WARNING, sweeps):
        yield _ok(name, f"No delivery is overdue by more than {max(DUE_WARNING, sweeps).total_seconds():g} s.")
        return
    hint = (
        "See that workers run and consume the queue of webhooks_app.deliver_due. Where they do, a webhook has more to "
        "get than its limits let through, or there are too few: `manage.py estimate_capacity`, of the app "
        "webhooks_app.demo, calculates."
    )
    found = f"A delivery has been due for {timedelta(seconds=round(late.total_seconds()))} (since {due_at:%F %T} UTC)."
    yield (_warning if late < max(DUE_ERROR, sweeps) else _error)(name, found, hint)


def _beat(name: str) -> Iterator[Finding]:
    if BEAT_CHECK in django_settings.SILENCED_SYSTEM_CHECKS:
        yield _ok(name, f"Its schedule is not looked at: {BEAT_CHECK} is silenced.")
        return
    is_in_database = "django_celery_beat" in str(_celery().conf.beat_scheduler)
    scheduled = _tasks_in_database() if is_in_database else _tasks_in_settings()
    where = "Beat's schedule in the database" if is_in_database else "Beat's schedule in the settings"
    hint = "Merge webhooks_app.beat.BEAT_SCHEDULE into CELERY_BEAT_SCHEDULE" + (
        ", start beat once, which copies it, and see in the admin that the entry is enabled." if is_in_database else "."
    )
    missing = [task for task in (SWEEP_TASK, PRUNE_TASK) if task not in scheduled]
    if missing:
        yield _warning(name, f"{where} has no entry for {' and '.join(missing)}.", hint)
    else:
        yield from _beat_seen(name, f"{where} has the sweep and the pruning")


def _beat_seen(name: str, found: str) -> Iterator[Finding]:
    came_at = MaintenanceJob.objects.using(_using()).filter(name=BEAT).values_list("ended_at", flat=True).first()
    if came_at is not None and DatabaseClock(_using())() - came_at < SEEN_WITHIN:
        yield _ok(name, f"{found}, and a message of it came lately.")
        return
    last = f"the last came at {came_at:%F %T} UTC" if came_at else "none ever came"
    hint = "Start `celery beat`. Without it workers go on, but nothing is pruned."
    yield _warning(name, f"{found}, but no worker had a message of it within a minute: {last}.", hint)


def _tasks_in_settings() -> set[str]:
    return {str(entry.get("task")) for entry in (_celery().conf.beat_schedule or {}).values()}


def _tasks_in_database() -> set[str]:
    entries: Any = apps.get_model("django_celery_beat", "PeriodicTask")
    wanted = entries.objects.filter(enabled=True, task__in=(SWEEP_TASK, PRUNE_TASK))
    return set(wanted.values_list("task", flat=True))


def _using() -> str:
    return router.db_for_write(Delivery)
