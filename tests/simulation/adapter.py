"""The one place that knows both the simulation and the code of deliveries: what replaces its database and threads."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

from greenlet import getcurrent

import webhooks_app.delivery
from webhooks_app import retry
from webhooks_app.database import clock
from webhooks_app.database.dialects import Session
from webhooks_app.delivery.listening import Tell
from webhooks_app.delivery.schedule import Schedule

from . import loop as virtual
from .referee import BrokenError
from .rows import Database, models_of
from .slot_rules import JudgedSlots
from .store import DeadlockError

for _found in pkgutil.iter_modules(webhooks_app.delivery.__path__, "webhooks_app.delivery."):
    importlib.import_module(_found.name)

MODULES = [
    *(module for name, module in sorted(sys.modules.items()) if name.startswith("webhooks_app.delivery.")),
    clock,
    retry,
]


@contextmanager
def substituted(database: Database, also: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Let the modules of delivery use the rows of a store, and ``also`` these objects in place of their names."""
    names: dict[str, Any] = {**models_of(database), **(also or {})}
    before: list[tuple[ModuleType, str, Any]] = []
    try:
        for module in MODULES:
            values = vars(module)
            for name, value in names.items():
                if name in values:
                    before.append((module, name, values[name]))
                    values[name] = value
        yield
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)


class Thread:
    """``threading.Thread`` in the process of the thread that starts it."""

    def __init__(self, *, target: Callable[..., object], args: tuple[Any, ...] = (), **options: Any) -> None:
        self._run = lambda: target(*args)
        self._thread: Any = None
        self._over: virtual.Event | None = None

    def start(self) -> None:
        process = getcurrent().process  # type: ignore[attr-defined]
        self._over = virtual.Event(process.loop)

        def run() -> None:
            try:
                self._run()
            finally:
                self._over.set()  # type: ignore[union-attr]

        self._thread = process.start(run)

    def join(self) -> None:
        assert self._over is not None
        self._over.wait()


class Connection:
    """The connection of a thread. ``connection`` is None while it is closed."""

    def __init__(self, world: Any, process: Any) -> None:
        self._world, self._process = world, process
        self.connection: Session | None = None

    def close(self) -> None:
        if self.connection is not None:
            self._world.sessions.discard(self.connection)
            self.connection = None

    def open(self) -> None:
        if self.connection is None:
            self._world.pids += 1
            self.connection = Session(self._world.pids, self._world.now())
            self._world.sessions.add(self.connection)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        yield self

    def execute(self, sql: str, params: object = ()) -> None:
        self._world.before("query of the time")
        self._answer = self._world.now()
        self._world.after("query of the time")

    def fetchone(self) -> tuple[Any]:
        return (self._answer,)


class Connections:
    def __init__(self, world: Any) -> None:
        self._world = world

    def __getitem__(self, alias: str) -> Connection:
        return self._world.connection_of(getcurrent())

    def close_all(self) -> None:
        self[""].close()


class Dialect:
    now_sql = "now"

    def __init__(self, world: Any) -> None:
        self._world = world
        self.has_single_writer = world.store.has_single_writer

    def session_of(self, connection: Connection) -> Session | None:
        if not self._world.plan.sees_sessions:
            return None
        connection.open()
        return connection.connection

    def has_session(self, connection: Connection, session: Session) -> bool:
        self._world.before("look at a session")
        return session in self._world.sessions

    def uptime_seconds(self, connection: Connection) -> float:
        return self._world.loop.now - self._world.database_up_since + 1000.0 * (self._world.database_up_since == 0)


class CommitEvent:
    """The event of a waiting worker: set by others, and by notifications of commits if the database sends them."""

    def __init__(self, world: Any, tell: Tell) -> None:
        self._world, self._tell = world, tell
        self._event = virtual.Event(world.loop)
        self._notices: list[tuple[list[str], bool]] = []
        self._heard: object = None
        process = getcurrent().process  # type: ignore[attr-defined]
        self.process = process
        world.listeners.append(self)

    def notify(self, webhook_ids: list[str], *, more_follow: bool) -> None:
        self._notices.append((webhook_ids, more_follow))
        self._event.set()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()
        self._take()

    def wait(self, timeout: float) -> None:
        if self._world.plan.notifies:
            connection = self._world.connection_of(getcurrent()).connection
            if connection is not None and connection is not self._heard:
                self._heard = connection
                self._tell(Schedule.listening)
                return
        if not self._notices:
            self._event.wait(timeout)
        self._take()

    def _take(self) -> None:
        notices, self._notices = self._notices, []
        for webhook_ids, more_follow in notices:
            if self._world.plan.notifies:
                self._tell(partial(Schedule.named, webhook_ids=webhook_ids, more_follow=more_follow))
            else:
                self._tell(Schedule.asked)


class Signer:
    """Signs nothing."""

    def sign(self, message: object, now: object) -> tuple[tuple[()], str]:
        return (), ""


class Time:
    """``time`` of the process whose thread runs."""

    def monotonic(self) -> float:
        return getcurrent().process.monotonic()  # type: ignore[attr-defined]

    def time(self) -> float:
        return getcurrent().process.wall()  # type: ignore[attr-defined]

    def time_ns(self) -> int:
        return int(self.time() * 1e9)


def names_for(world: Any) -> dict[str, Any]:
    """Return what replaces names of the modules during a history."""
    loop, random = world.loop, world.random
    connections, dialect = Connections(world), Dialect(world)
    sessions = models_of(world.database)["WorkerSession"].objects
    return {
        "threading": SimpleNamespace(
            Event=lambda: virtual.Event(loop),
            Lock=lambda: virtual.Lock(loop),
            Thread=Thread,
            get_ident=lambda: id(getcurrent()),
        ),
        "time": Time(),
        "connections": connections,
        "dialect_of": lambda using: dialect,
        "sql_for": lambda using: world.store,
        "Slots": partial(JudgedSlots, lambda text: world.broke(BrokenError("slots", text)), world.note_use),
        "secrets": SimpleNamespace(randbits=lambda bits: world.next_worker_number()),
        "random": random,
        "is_deadlock": lambda using, error: isinstance(error, DeadlockError),
        "writing": lambda using, model: world.store.writing(),
        "is_upcoming": lambda: None,
        "commit_event": lambda using, tell, is_woken: CommitEvent(world, tell),
        "announce_deliveries": lambda using, webhook_ids=(): world.announce(list(webhook_ids)),
        "settings": world.settings,
        "_sessions": lambda using: sessions,
        "_save_notices": lambda using, finished: None,
        "rare_collections": nullcontext(),
        "problem_with_lease": lambda: "",
        "logger": world.logger,
    }


def engine_of(transport: Any) -> Any:
    """Return the engine of a worker, with its own clock, which reads the time of the database."""
    return sys.modules["webhooks_app.delivery.engine"].Engine(
        transport=transport, using="default", database_thread=True
    )


POLICIES = ("", "swift:0.5,1,2", "once:", "extended:1,3")
