"""``manage.py estimate_capacity``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...choices import retry_policy
from ...conf import settings
from ...delivery.slots import usual_cap
from ...outbound import configured_transport
from ..base import WebhooksCommand
from ..capacity import IN_FLIGHT_AT_MOST, Load, Policy, assumptions, described


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


def _load(options: dict[str, Any]) -> Load:
    for option in ("events", "webhooks", "latency", "bytes"):
        if not 0 < options[option] < float("inf"):
            raise CommandError(f"--{option} is {options[option]:g}, but must be above 0.")
    if not 0 <= options["failing"] <= 100:
        raise CommandError(f"--failing is {options['failing']:g}, but must be a percentage from 0 to 100.")
    return Load(
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
