"""``manage.py deliver_webhooks``"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, InterfaceError, connections, router

from ...conf import configured_transport
from ...delivery.engine import Engine
from ...maintenance.runner import MaintenanceRunner
from ...models import Delivery
from ...signals import attempt_made, delivery_given_up, delivery_succeeded
from ..base import WebhooksCommand, stopped_by_signal

SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval. With the default of 5 ms, sending often waits that long for the maintenance."""

COUNTED = {"attempts": attempt_made, "succeeded": delivery_succeeded, "given up": delivery_given_up}


class Command(WebhooksCommand):
    help = (
        "Deliver webhooks in the foreground, without Celery, until SIGTERM or Ctrl-C. "
        "The command finishes requests in flight first; a second signal ends it at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--until-idle",
            action="store_true",
            help="Exit when nothing is due, in flight or awaiting a retry; for scripts and cron.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if _lacks_tables():
            raise CommandError("The database has no tables of webhooks_app yet. Run `manage.py migrate` first.")
        sys.setswitchinterval(SWITCH_SECONDS)
        transport = configured_transport()
        engine = Engine(transport=transport, database_thread=True)
        self.note(f"Delivering webhooks from {_database()} with the transport {transport.name}.")
        with _counting() as counts:
            try:
                with stopped_by_signal(engine.stop), MaintenanceRunner(engine):
                    engine.run_until_idle() if options["until_idle"] else engine.run()
            except KeyboardInterrupt:
                raise CommandError(
                    "Ended at once. Deliveries in flight are retried when their leases expire.", returncode=130
                ) from None
        self.result(", ".join(f"{name}: {counts[name]}" for name in COUNTED))


def _lacks_tables() -> bool:
    """Return True if the database answers without our tables. The engine waits for one that does not answer."""
    using = router.db_for_write(Delivery)
    try:
        Delivery.objects.using(using).order_by().exists()
    except (DatabaseError, InterfaceError):
        try:
            return Delivery._meta.db_table not in connections[using].introspection.table_names()
        except (DatabaseError, InterfaceError):
            return False
    return False


def _database() -> str:
    connection = connections[router.db_for_write(Delivery)]
    return f"{connection.display_name} ({connection.alias})"


@contextmanager
def _counting() -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()

    def counter(name: str) -> Any:
        def count(**kwargs: Any) -> None:
            counts[name] += 1

        return count

    counters = {name: counter(name) for name in COUNTED}
    for name, signal in COUNTED.items():
        signal.connect(counters[name])
    try:
        yield counts
    finally:
        for name, signal in COUNTED.items():
            signal.disconnect(counters[name])
