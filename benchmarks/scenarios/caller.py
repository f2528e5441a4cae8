"""The CPU time that an event costs the thread that emits it: in Python, over the API, and with a broken broker."""

from __future__ import annotations

import argparse
import io
import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from celery import Celery
from django.core.handlers.wsgi import WSGIHandler

from tests.support.statements import statements_of
from webhooks_app.models import ApiKey
from webhooks_app.wake.base import WAKES

from .. import celery_app, rows
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most
from ..web_settings import SETTINGS

SUBSCRIBERS = 10
BATCH = 100
SLOW_SECONDS = 0.1
"""The delay of each answer of the slow broker."""

NOWHERE = "http://127.0.0.1:9"

WEB = {name: value for name, value in SETTINGS.items() if name != "WEBHOOKS_API_RATE"}
"""The settings of the console and the API, with all rate limits."""


class Caller(BaseScenario):
    name = "caller"
    summary = "CPU of an event's caller: emit to 10 subscribers, with any state of the broker, and POST /v1/events"
    variants = (
        Variant(
            label="PostgreSQL",
            settings=WEB,
            targets={
                "emit_cpu_ms": at_most(1.2),
                "post_cpu_ms": at_most(2),
                "batch_cpu_ms": at_most(25),
                **{f"emit_cpu_ms_{state}_broker": at_most(1.2) for state in ("dead", "hanging", "slow")},
            },
        ),
        Variant(label="SQLite", database="sqlite", settings=WEB, targets={"emit_cpu_ms": at_most(1.5)}),
    )
    options: ClassVar = {
        "caller_events": (300, "events of each measurement, one after the other"),
        "pause_ms": (20, "pause between two of them, as in a web process"),
    }
    quick: ClassVar = {"caller_events": 20, "pause_ms": 1}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        (owner,) = rows.make_webhooks([NOWHERE] * SUBSCRIBERS, subscribers=SUBSCRIBERS)
        measured = partial(_measured, number=arguments.caller_events, pause_seconds=arguments.pause_ms / 1000)
        emit = partial(rows.emit_one, owner)
        event = {"type": rows.EVENT_TYPE, "owner": str(owner.pk), "data": rows.DATA}
        _, key = ApiKey.objects.make(owner=None, scopes=["events:emit"])
        figures: Figures = {}
        progress.step("emitting")
        figures |= measured("emit", emit)
        progress.step("posting events")
        figures |= measured("post", _posting(event, key))
        progress.step("posting batches")
        number = max(3, arguments.caller_events // 10)
        figures |= measured("batch", _posting({"events": [event] * BATCH}, key), number=number)
        for state, running in BROKERS.items():
            progress.step(f"emitting with a {state} broker")
            with running() as url, _broker(url):
                found = measured("emit", emit)
            figures |= {f"{name}_{state}_broker": found[name] for name in ("emit_cpu_ms", "emit_p99_ms")}
        rows.clear()
        return figures


def _measured(name: str, act: Callable[[], Any], *, number: int, pause_seconds: float) -> Figures:
    """Return the median CPU time of this thread and the slowest per cent of the calls, in milliseconds."""
    for _ in range(10):  # prepares the statements
        act()
    found = {f"{name}_statements": float(len(statements_of(act)))}
    cpu, wall = [], []
    for _ in range(number):
        time.sleep(pause_seconds)
        cpu_before, wall_before = time.thread_time(), time.perf_counter()
        act()
        wall.append(1000 * (time.perf_counter() - wall_before))
        cpu.append(1000 * (time.thread_time() - cpu_before))
    wall.sort()
    return {**found, f"{name}_cpu_ms": statistics.mean(cpu), f"{name}_p99_ms": wall[int(0.99 * len(wall))]}


def _posting(body: Mapping[str, Any], key: str) -> Callable[[], bytes]:
    """Return a function that sends this body to the WSGI application, without a server."""
    application, content = WSGIHandler(), json.dumps(body).encode()
    environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/v1/events",
        "QUERY_STRING": "",
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "HTTP_HOST": "testserver",
        "HTTP_AUTHORIZATION": f"Bearer {key}",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(content)),
        "wsgi.url_scheme": "http",
    }

    def post() -> bytes:
        statuses: list[str] = []
        stream = {"wsgi.input": io.BytesIO(content), "wsgi.errors": io.StringIO()}
        response: Any = application({**environ, **stream}, lambda status, *_: statuses.append(status))  # type: ignore[arg-type]
        answer = b"".join(response)
        response.close()
        if not statuses[0].startswith("202"):
            raise RuntimeError(f"{statuses[0]}: {answer!r}")
        return answer

    return post


@contextmanager
def _broker(url: str) -> Generator[None]:
    """Wake workers through another broker, with the state of a new process."""
    other = Celery("other", set_as_current=True)
    other.conf.update(broker_url=url)
    WAKES.one.cache_clear()
    try:
        yield
    finally:
        celery_app.set_current()
        WAKES.one.cache_clear()


@contextmanager
def _dead() -> Generator[str]:
    yield "redis://127.0.0.1:9/0"


@contextmanager
def _hanging() -> Generator[str]:
    """Accept connections, and never answer."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=100)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@contextmanager
def _slow() -> Generator[str]:
    """Pass everything on to the variant's broker, and its answers back after a pause."""
    address = urlsplit(celery_app.conf.broker_url)
    with closing(socket.create_server(("127.0.0.1", 0), backlog=100)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, far = server.accept()[0], socket.create_connection((address.hostname, address.port))
                    for source, target, seconds in ((near, far, 0.0), (far, near, SLOW_SECONDS)):
                        threading.Thread(target=_pass_on, args=(source, target, seconds), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        server.shutdown(socket.SHUT_RDWR)


def _pass_on(source: socket.socket, target: socket.socket, pause_seconds: float) -> None:
    with suppress(OSError), closing(target):
        while data := source.recv(65536):
            time.sleep(pause_seconds)
            target.sendall(data)


BROKERS = {"dead": _dead, "hanging": _hanging, "slow": _slow}
