"""``manage.py estimate_capacity``"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...conf import configured_transport, retry_policy, settings
from ...delivery.slots import usual_cap
from ...plurals import counted
from ...transport.native import MAX_OPEN_REQUESTS
from ..base import WebhooksCommand


class Command(WebhooksCommand):
    help = (
        "Print the required capacity for a load: worker processes, requests in flight, memory, rows written, disk. "
        "The estimate uses measured figures. Nothing is sent or read."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--events", type=float, required=True, metavar="N", help="Events per second.")
        parser.add_argument(
            "--webhooks",
            type=float,
            default=1.0,
            metavar="N",
            help="Webhooks per event. Default: 1.",
        )
        parser.add_argument(
            "--latency",
            type=float,
            default=0.5,
            metavar="SECONDS",
            help="Average time from connecting to a receiver to its answer. Default: 0.5.",
        )
        parser.add_argument(
            "--failing",
            type=float,
            default=1.0,
            metavar="PERCENT",
            help="Failed attempts. Default: 1.",
        )
        parser.add_argument("--bytes", type=int, default=1024, metavar="N", help="Size of an envelope. Default: 1024.")
        parser.add_argument(
            "--transport", choices=tuple(IN_FLIGHT_AT_MOST), help="Default: the transport of the settings."
        )
        parser.add_argument("--http", action="store_true", help="Plain http over persistent connections, without TLS.")

    def handle(self, *args: Any, **options: Any) -> None:
        load = _load(options)
        policy = _policy(load.transport)
        rows = described(load, policy)
        width = max(len(name) for name, _ in rows)
        for name, amount in rows:
            self.result(f"{name:<{width}}  {amount}")
        self.result("")
        for sentence in assumptions(load, policy):
            self.result(f"- {sentence}")


def _load(options: dict[str, Any]) -> ExpectedLoad:
    for option in ("events", "webhooks", "latency", "bytes"):
        if not 0 < options[option] < float("inf"):
            raise CommandError(f"--{option} is {options[option]:g}, but must be above 0.")
    if not 0 <= options["failing"] <= 100:
        raise CommandError(f"--failing is {options['failing']:g}, but must be a percentage from 0 to 100.")
    return ExpectedLoad(
        events_per_second=options["events"],
        webhooks_per_event=options["webhooks"],
        latency_seconds=options["latency"],
        failing_share=options["failing"] / 100,
        envelope_bytes=options["bytes"],
        transport=options["transport"] or _configured_transport(),
        tls=not options["http"],
    )


def _configured_transport() -> str:
    transport = configured_transport()
    transport.close()
    return transport.name if transport.name in IN_FLIGHT_AT_MOST else "native"


def _policy(transport: str) -> Policy:
    window = min(settings.MAX_IN_FLIGHT, IN_FLIGHT_AT_MOST[transport])
    return Policy(
        max_attempts=retry_policy().max_attempts,
        retry_notices=settings.RETRY_NOTICES,
        in_flight_per_process=window,
        in_flight_per_webhook=usual_cap(window, settings.MAX_IN_FLIGHT_PER_WEBHOOK),
        attempt_days=settings.ATTEMPT_RETENTION_DAYS,
        event_days=settings.EVENT_RETENTION_DAYS,
    )


CPU_SECONDS_PER_REQUEST: Mapping[str, float] = {"native": 0.0002, "requests": 0.0005}
"""Benchmarks ``throughput`` and ``slow``: the larger ``cpu_s_per_1000``, over persistent http connections."""

TLS_CPU_SECONDS: Mapping[str, float] = {"native": 0.001, "requests": 0.001}
"""Additional cost of a new TLS connection. Benchmark ``tls``: 1 / ``new_per_s`` less 1 / ``kept_per_s``, the receiver's
share included. Receivers seldom keep theirs."""

IN_FLIGHT_AT_MOST: Mapping[str, int] = {"native": MAX_OPEN_REQUESTS, "requests": 64}
"""Requests in flight of one process; ``WEBHOOKS_MAX_IN_FLIGHT`` lowers it."""

SPARE_DESCRIPTORS = 300
"""Open files of a process besides the connections of its requests: name lookups, the database, the project's code."""

PROCESS_MB = 120
"""Benchmark ``soak``: ``memory_mb`` of one process of a Celery worker, without the project's own code."""

IN_FLIGHT_KB = 25
"""Benchmark ``slow``: ``kb_per_in_flight`` over http, without the body of the request."""

TLS_IN_FLIGHT_KB = 40
"""Additional memory of a TLS connection, measured with OpenSSL 3.0 and TLS 1.3. OpenSSL itself uses 38 kB, 17 of them
for a buffer that it keeps after a session ticket. Python's contexts already release the buffers of idle connections."""

EVENT_BYTES = 600
DELIVERY_BYTES = 250
ATTEMPT_BYTES = 500
"""Size of a new row with its index entries on PostgreSQL: an event without its envelope, or a short attempt."""

BLOAT = 1.5
"""Approximate ratio of the size of updated and pruned tables to that of their rows."""

USABLE_SHARE = 0.5
"""Share of a core that a plan uses. The rest is reserved for bursts, other tasks, and the failure of a node."""

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedLoad:
    """``failing_share`` is the share of failed attempts."""

    events_per_second: float
    webhooks_per_event: float
    latency_seconds: float
    failing_share: float = 0.0
    envelope_bytes: int = 1024
    transport: str = "native"
    tls: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Settings relevant to a plan."""

    max_attempts: int
    retry_notices: bool
    in_flight_per_process: int
    in_flight_per_webhook: int
    attempt_days: int
    event_days: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityPlan:
    """Required capacity for a load."""

    deliveries_per_second: float
    retries_per_second: float
    notices_per_second: float
    requests_per_second: float
    in_flight: float
    cores: float
    processes: int
    bound_by: str
    memory_mb: float
    deliveries_per_second_per_webhook: float
    webhooks_at_least: int
    rows_inserted_per_second: float
    rows_updated_per_second: float
    gb_per_day: float
    gb_kept: float


def plan(load: ExpectedLoad, policy: Policy) -> CapacityPlan:
    """Return the capacity for a steady load. Bursts queue up in the database and are sent at this capacity."""
    deliveries = load.events_per_second * load.webhooks_per_event
    retries = deliveries * sum(load.failing_share**number for number in range(1, policy.max_attempts))
    notices = retries if policy.retry_notices else 0.0
    requests = deliveries + retries + notices
    in_flight = requests * load.latency_seconds
    cores = requests * _cpu_seconds(load) / USABLE_SHARE
    processes, bound_by = _processes(load, cores, in_flight, policy)
    per_webhook = policy.in_flight_per_webhook / load.latency_seconds
    event_bytes = (load.events_per_second + notices) * (EVENT_BYTES + load.envelope_bytes) + (
        deliveries + notices
    ) * DELIVERY_BYTES
    attempt_bytes = requests * ATTEMPT_BYTES
    return CapacityPlan(
        deliveries_per_second=deliveries,
        retries_per_second=retries,
        notices_per_second=notices,
        requests_per_second=requests,
        in_flight=in_flight,
        cores=cores,
        processes=processes,
        bound_by=bound_by,
        memory_mb=processes * PROCESS_MB + in_flight * _kb_in_flight(load) / 1024,
        deliveries_per_second_per_webhook=per_webhook,
        webhooks_at_least=math.ceil(requests / per_webhook),
        rows_inserted_per_second=load.events_per_second + notices + deliveries + notices + requests,
        rows_updated_per_second=2 * requests,
        gb_per_day=BLOAT * (event_bytes + attempt_bytes) * SECONDS_PER_DAY / 1e9,
        gb_kept=BLOAT * (event_bytes * policy.event_days + attempt_bytes * policy.attempt_days) * SECONDS_PER_DAY / 1e9,
    )


def described(load: ExpectedLoad, policy: Policy) -> Sequence[tuple[str, str]]:
    """Return the plan as lines of two columns: name and amount."""
    found = plan(load, policy)
    return (
        ("deliveries", f"{found.deliveries_per_second:,.1f}/s"),
        ("retries and notices", f"{found.retries_per_second:,.1f}/s and {found.notices_per_second:,.1f}/s"),
        ("requests", f"{found.requests_per_second:,.1f}/s"),
        ("in flight", f"{found.in_flight:,.0f}, all processes together"),
        ("cores", f"{found.cores:,.1f}, half idle"),
        ("worker processes", f"{found.processes:,} ({found.bound_by})"),
        ("memory", f"{found.memory_mb:,.0f} MB"),
        ("one webhook", f"{found.deliveries_per_second_per_webhook:,.1f} requests/s at most"),
        ("webhooks at least", f"{found.webhooks_at_least:,}, otherwise they fall behind"),
        (
            "rows written",
            f"{found.rows_inserted_per_second:,.0f}/s inserted, {found.rows_updated_per_second:,.0f}/s updated",
        ),
        ("disk", f"{found.gb_per_day:,.1f} GB per day, {found.gb_kept:,.0f} GB retained"),
    )


def assumptions(load: ExpectedLoad, policy: Policy) -> Sequence[str]:
    """Return the assumptions of the plan, one sentence each."""
    window = policy.in_flight_per_process
    wire = "a new TLS connection for each request" if load.tls else "plain http over persistent connections"
    return (
        f"{1000 * _cpu_seconds(load):.1f} ms of CPU per request ({load.transport}, {wire}); cores at most half busy.",
        f"A process holds {PROCESS_MB} MB, and {_kb_in_flight(load)} KB for each request in flight.",
        f"It can have {window:,} of them if its limit of open files is {window + SPARE_DESCRIPTORS:,} or more.",
        f"{load.failing_share:.0%} of all attempts fail; a delivery has up to {policy.max_attempts}.",
        f"An envelope has {load.envelope_bytes:,} bytes. Answers are short; at most 16 KiB of each are stored.",
        f"Retention: attempts {counted(policy.attempt_days, 'day')}, events and deliveries {policy.event_days}.",
        "The figures come from this project's benchmarks on two cores: run `make bench` on your machine.",
    )


def _cpu_seconds(load: ExpectedLoad) -> float:
    return CPU_SECONDS_PER_REQUEST[load.transport] + (TLS_CPU_SECONDS[load.transport] if load.tls else 0.0)


def _kb_in_flight(load: ExpectedLoad) -> int:
    return IN_FLIGHT_KB + (TLS_IN_FLIGHT_KB if load.tls else 0) + math.ceil(load.envelope_bytes / 1024)


def _processes(load: ExpectedLoad, cores: float, in_flight: float, policy: Policy) -> tuple[int, str]:
    """Return the number of processes and its reason. It is at least two, so that one can restart."""
    window = policy.in_flight_per_process
    slots = usual_cap(window, window)  # what a few owners or webhooks can use
    needs = {
        "two, so that one can restart": 2,
        "for the CPU: one process uses one core": math.ceil(cores),
        f"for requests in flight: {slots:,} per process": math.ceil(in_flight / slots),
    }
    reason = max(needs, key=lambda need: needs[need])
    return needs[reason], reason
