"""The same events to this app and to other servers that are running, over HTTP."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import defaultdict, deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

from tests.support.servers.process import free_port, listens, running, server_directory
from webhooks_app.models import ApiKey

from .. import machine, receivers, rows, workers
from ..delays import percentiles
from ..progress import Progress
from ..rivals.apis import BaseApi, Emitting, OutpostApi, OwnApi, SvixApi
from ..scenario import BaseScenario, Figures, Variant
from ..web_settings import SETTINGS

ACCOUNTS, ENDPOINTS = 2, 10
"""The accounts of the burst, and the endpoints of each, which all get its events."""

STEADY_ACCOUNTS = 50
"""The accounts of the steady events, with one endpoint each, so that an account's events are far apart."""

PER_SECOND = 200
WARM_UP_EVENTS = 1000
PATIENCE_SECONDS = 120
SERVERS: Mapping[str, type[BaseApi]] = {"svix": SvixApi, "outpost": OutpostApi}


class Rivals(BaseScenario):
    name = "rivals"
    summary = "the same events over HTTP to this app and to servers that are running, received by the same nginx"
    variants = (
        Variant(label="POST /v1/events", broker="none", settings={**SETTINGS, "WEBHOOKS_EMIT_RATE": ""}),
        Variant(label="emit", broker="none"),
        *(Variant(label=name, database="sqlite", broker="none", contestant=name) for name in SERVERS),
    )
    max_load = 0.3
    options: ClassVar = {
        "posted": (5000, f"events of the burst, over {BaseApi.connections} connections"),
        "steady": (2000, f"events at {PER_SECOND} per second"),
        **{
            name: ("", f"the address of the running server; {api.token_variable} has its key")
            for name, api in SERVERS.items()
        },
    }
    quick: ClassVar = {"posted": 100, "steady": 100}

    def chosen_variants(self, arguments: argparse.Namespace) -> list[Variant]:
        chosen = super().chosen_variants(arguments)
        return [each for each in chosen if each.contestant == "ours" or getattr(arguments, each.contestant)]

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        with receivers.nginx() as receiver, _contestant(arguments, variant) as contestant:
            accounts = contestant.add_accounts(
                [[f"{receiver.url}/{account}/{number}" for number in range(ENDPOINTS)] for account in range(ACCOUNTS)]
            )
            warm_up = min(arguments.posted, WARM_UP_EVENTS)
            _send(contestant, accounts, warm_up, "warming up", progress)
            _wait(receiver, warm_up * ENDPOINTS, progress)

            before, cpu, began_at = receiver.count(), _cpu_seconds(contestant), time.time()
            _send(contestant, accounts, arguments.posted, "sending", progress)
            sent_at = time.time()
            _wait(receiver, before + arguments.posted * ENDPOINTS, progress)
            cpu = _cpu_seconds(contestant) - cpu
            deliveries = receiver.requests()[before:]

            steady = contestant.add_accounts([[f"{receiver.url}/{number}"] for number in range(STEADY_ACCOUNTS)])
            before = receiver.count()
            sent = _send_steadily(contestant, steady, arguments.steady, progress)
            _wait(receiver, before + arguments.steady, progress)
            delays = _delays_ms(sent, receiver.requests()[before:])
        if variant.contestant == "ours":
            rows.clear()
        return {
            "events_per_s": arguments.posted / (sent_at - began_at),
            "deliveries_per_s": len(deliveries) / (max(each.answered_at for each in deliveries) - began_at),
            "cpu_s_per_1000": 1000 * cpu / len(deliveries),
            **percentiles("steady_", delays),
        }


@contextmanager
def _contestant(arguments: argparse.Namespace, variant: Variant) -> Generator[Emitting]:
    """Run this app, if it is the contestant; yield its client."""
    if variant.contestant != "ours":
        yield SERVERS[variant.contestant](getattr(arguments, variant.contestant))
        return
    with workers.worker_without_broker():
        if variant.label == "emit":
            yield Emitting()
            return
        _, key = ApiKey.objects.make(owner=None, scopes=[ApiKey.Scope.EVENTS_EMIT])
        with _web_server() as url:
            yield OwnApi(url, key)


@contextmanager
def _web_server() -> Generator[str]:
    """Run the API with gunicorn and two processes."""
    with server_directory("web") as directory:
        port = free_port()
        command = [sys.executable, "-m", "gunicorn", "--workers", "2", "--threads", "4", "--keep-alive", "60"]
        command += ["--bind", f"127.0.0.1:{port}", "django.core.wsgi:get_wsgi_application()"]
        with running(command, directory=directory, ready=lambda: listens(port)):
            yield f"http://127.0.0.1:{port}"


def _send(contestant: Emitting, accounts: Sequence[Any], count: int, title: str, progress: Progress) -> None:
    """Send events, each account's in turn, as fast as the connections can."""
    progress.step(title, count)
    in_turn = itertools.islice(itertools.cycle(accounts), count)
    with ThreadPoolExecutor(contestant.connections) as threads:
        for number, _ in enumerate(threads.map(contestant.send_event, in_turn), start=1):
            progress.done(number)


def _send_steadily(
    contestant: Emitting, accounts: Sequence[Any], count: int, progress: Progress
) -> list[tuple[int, float]]:
    """Send events at irregular intervals; return the number of the account and the time before each."""
    progress.step("steady", count)
    numbers = list(itertools.islice(itertools.cycle(range(len(accounts))), count))
    next_at = time.monotonic()

    def send(number: int) -> tuple[int, float]:
        began_at = time.time()
        contestant.send_event(accounts[number])
        return number, began_at

    with ThreadPoolExecutor(contestant.connections) as threads:
        results = []
        for number in numbers:
            next_at += random.uniform(0.5, 1.5) / PER_SECOND
            time.sleep(max(0.0, next_at - time.monotonic()))
            results.append(threads.submit(send, number))
            progress.done(len(results))
        return [result.result() for result in results]


def _wait(receiver: receivers.Receiver, expected: int, progress: Progress) -> None:
    """Wait for as many requests, and a moment longer, in which what is left is recorded and no other may arrive."""
    progress.step("delivering", expected)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := receiver.count()) < expected and time.monotonic() < deadline:
        progress.done(found)
        time.sleep(0.05)
    time.sleep(1)
    if (found := receiver.count()) != expected:
        raise RuntimeError(f"{expected} requests were expected, but {found} arrived.")


def _delays_ms(sent: Sequence[tuple[int, float]], requests: Sequence[receivers.LoggedRequest]) -> list[float]:
    """Return the time from before each event to its arrival. The events of an account arrive in their order."""
    arrivals: defaultdict[int, deque[float]] = defaultdict(deque)
    for request in sorted(requests, key=lambda request: request.at):
        arrivals[int(request.target.rpartition("/")[2])].append(request.at)
    return [1000 * (arrivals[number].popleft() - at) for number, at in sent]


def _cpu_seconds(contestant: Emitting) -> float:
    """Return the CPU time of the machine, without nginx, and without this process where it is only a client."""
    client = time.process_time() if isinstance(contestant, BaseApi) else 0.0
    return machine.busy_seconds() - machine.cpu_seconds_of("nginx") - client
