"""Examination of everything around the delivery: settings, transport, address guard, wake-up, and the database."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings as django_settings
from django.core import checks
from django.db import DatabaseError, InterfaceError, connections, router
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from ..conf import CHECKS_TAG, LANGUAGE, checks_language, configured_transport, transport_options
from ..database.clock import DatabaseClock
from ..database.dialects import dialect_of
from ..models import Delivery
from ..transport import AddressGuard, TransportError
from ..wake.base import chosen_wake
from .findings import Finding, Level, fail, ok, warn

OURS = "webhooks_app."
BEAT_CHECK = "webhooks_app.W003"

MUST_REFUSE = (
    "0.0.0.0",  # noqa: S104 - an address that must be refused
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
"""Loopback, private and link-local addresses, metadata services of clouds, and other notations of these."""

METADATA = frozenset(("100.100.100.200", "168.63.129.16", "169.254.169.254", "fd00:ec2::254"))
"""Metadata services of clouds, which return a machine's credentials. Webhooks never need them."""

KEYS_CHECK = "webhooks_app.W009"

CLOCK_WARNING, CLOCK_ERROR = timedelta(seconds=2), timedelta(seconds=60)
"""Receivers reject signatures with a time that is minutes off. Smaller differences make the log misleading."""


def examine_settings(name: str) -> Iterator[Finding]:
    """Yield the messages of this app's system checks, except the one about beat."""
    messages = of_app(messages_of(CHECKS_TAG))
    yield from map(of_check, messages)
    if not messages:
        yield ok(name, _("All system checks of this app pass."))


def examine_deployment(name: str) -> Iterator[Finding]:
    """Yield the messages of `check --deploy`, including Django's own; with DEBUG, a single remark."""
    known = messages_of(CHECKS_TAG)
    messages = [
        message for message in messages_of(CHECKS_TAG, checks.Tags.security, deploy=True) if message not in known
    ]
    if not messages:
        yield ok(name, _("`manage.py check --deploy` reports nothing else."))
    elif django_settings.DEBUG:
        found = _("DEBUG is on. For production, `manage.py check --deploy` also reports: %(ids)s.")
        yield ok(name, found % {"ids": ", ".join(sorted(str(message.id) for message in messages))})
    else:
        yield from (of_check(message, "check --deploy: ") for message in messages)


def messages_of(*tags: str, deploy: bool = False, databases: Sequence[str] | None = None) -> list[checks.CheckMessage]:
    """Return the messages of system checks with these tags in the active language, except silenced ones."""
    before = checks_language.set(get_language() or LANGUAGE)
    try:
        found = checks.run_checks(tags=tags, include_deployment_checks=deploy, databases=databases)
    finally:
        checks_language.reset(before)
    return [message for message in found if not message.is_silenced()]


def of_app(messages: Iterable[checks.CheckMessage]) -> list[checks.CheckMessage]:
    """Return the messages of this app, except the one about beat, which is examined with its messages."""
    return [each for each in messages if str(each.id).startswith(OURS) and each.id != BEAT_CHECK]


def of_check(message: checks.CheckMessage, prefix: str = "") -> Finding:
    level = Level.ERROR if message.level >= checks.ERROR else Level.WARNING
    return Finding(name=str(message.id), level=level, found=f"{prefix}{message.msg}", hint=str(message.hint or ""))


def examine_transport(name: str) -> Iterator[Finding]:
    """Yield the name of the transport. The system checks report a setting that cannot be used."""
    try:
        transport = configured_transport()
    except ValueError:
        return
    transport.close()
    yield ok(name, _("Requests are sent by the transport '%(name)s'.") % {"name": transport.name})


def examine_wake(name: str) -> Iterator[Finding]:
    found = chosen_wake()
    how = _("Workers poll the database.") if found == "none" else _("Workers are woken by '%(name)s'.")
    yield ok(name, how % {"name": found})


def examine_guard(name: str) -> Iterator[Finding]:
    """Check that the address guard refuses internal addresses with the current settings."""
    options = transport_options()
    guard = AddressGuard(options)
    reachable = [
        address for address in MUST_REFUSE if not isinstance(guard.check_answer("doctor", [address]), TransportError)
    ]
    networks = ", ".join(map(str, options.allowed_networks))
    metadata = [address for address in reachable if address in METADATA]
    if metadata:
        found = _("A webhook can reach %(addresses)s, where clouds return a machine's credentials.")
        hint = _("Remove the network of this address from WEBHOOKS_ALLOWED_NETWORKS.")
        yield fail(name, found % {"addresses": ", ".join(metadata)}, hint)
    elif reachable and not networks:
        found = _("A webhook can reach %(addresses)s, which no setting allows.")
        hint = _("The guard's table was modified: reinstall the package.")
        yield fail(name, found % {"addresses": ", ".join(reachable)}, hint)
    else:
        found = _("%(refused)d of %(number)d internal test addresses are refused.")
        if networks:
            found = _("%(refused)d of %(number)d internal test addresses are refused; the settings allow %(networks)s.")
        numbers = {"refused": len(MUST_REFUSE) - len(reachable), "number": len(MUST_REFUSE)}
        yield ok(name, found % {**numbers, "networks": networks})


def examine_database(name: str) -> Iterator[Finding]:
    try:
        is_current = has_tables()
    except (DatabaseError, InterfaceError) as error:
        found = _("The database does not answer: %(error)s") % {"error": str(error).strip()}
        yield fail(name, found, _("Start it, or fix DATABASES."))
        return
    if not is_current:
        yield fail(name, _("The tables do not match this version."), _("Run `manage.py migrate webhooks_app`."))
    else:
        connection = connections[database_alias()]
        found = _("%(database)s (%(alias)s) answers and has the tables.")
        yield ok(name, found % {"database": connection.display_name, "alias": connection.alias})


def has_tables() -> bool:
    """Return True if the database has the tables of this version. It raises its own error if it does not answer."""
    executor = MigrationExecutor(connections[database_alias()])
    leaves = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "webhooks_app"]
    return not executor.migration_plan(leaves)


def examine_clock(name: str) -> Iterator[Finding]:
    """Compare this machine's clock, which signatures use, with that of the database, which due times use."""
    if dialect_of(database_alias()).now_sql is None:
        found = _("%(database)s uses this machine's clock.")
        yield ok(name, found % {"database": connections[database_alias()].display_name})
        return
    asked, started = datetime.now(UTC), time.monotonic()
    database = DatabaseClock(database_alias())()
    took = timedelta(seconds=time.monotonic() - started)
    ahead = max(timedelta(), abs(asked + took / 2 - database) - took / 2)
    found = _("This machine and the database are %(seconds).1f s apart.") % {"seconds": ahead.total_seconds()}
    hint = _("Synchronize both clocks by NTP: receivers reject signatures with a time that is minutes off.")
    if ahead <= CLOCK_WARNING:
        yield ok(name, found)
    else:
        yield (warn if ahead <= CLOCK_ERROR else fail)(name, found, hint)


def examine_keys(name: str) -> Iterator[Finding]:
    """Yield the messages of this app's checks of the database, which `migrate` runs. One decrypts stored secrets."""
    messages = of_app(messages_of(checks.Tags.database, databases=[database_alias()]))
    for message in messages:
        is_about_keys = message.id == KEYS_CHECK
        yield fail(name, str(message.msg), str(message.hint)) if is_about_keys else of_check(message)
    if KEYS_CHECK in django_settings.SILENCED_SYSTEM_CHECKS:
        yield ok(name, _("The stored secrets are not examined: %(check)s is silenced.") % {"check": KEYS_CHECK})
    elif not any(message.id == KEYS_CHECK for message in messages):
        yield ok(name, _("The encryption keys decrypt the stored secrets."))


def database_alias() -> str:
    return router.db_for_write(Delivery)
