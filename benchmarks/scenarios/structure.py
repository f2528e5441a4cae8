"""The size of the package, and the files, functions, queries and calls of what it does: counts without noise."""

from __future__ import annotations

import argparse
import ast
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

import webhooks_app
from tests.support.statements import statements_of
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import ApiKey, Delivery, QueueEntry, Webhook
from webhooks_app.operations import lifecycle, registration, rotation, sending
from webhooks_app.operations.actors import PROJECT

from .. import receivers, rows
from ..burst import SUBSCRIBERS, WEBHOOKS
from ..progress import Progress
from ..scenario import BaseScenario, Figures, Variant, at_most
from ..web_settings import SETTINGS
from .counts import calls_of, no_wake_ups

Passed = dict[str, set[tuple[str, int]]]
"""The file and the first line of each function, for each walk."""

COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}

PACKAGE = Path(webhooks_app.__file__).parent
REACH = {
    "lines": 31_000,
    "code_lines": 19_500,
    "modules": 250,
    "emit_files": 12,
    "send_files": 28,
    "redeliver_files": 18,
    "register_files": 30,
    "handshake_files": 34,
    "pause_queries": 6,
    "delete_queries": 13,
}


class Structure(BaseScenario):
    name = "structure"
    summary = "the size of the package, and the files, functions, queries and calls of what it does"
    runs = 1
    variants = (
        Variant(
            label="PostgreSQL",
            broker="folder",
            settings=SETTINGS,
            targets={name: at_most(limit) for name, limit in REACH.items()},
        ),
    )

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        progress.step("counting")
        with no_wake_ups(), receivers.answering() as url:
            found = {**size(), **walks(url), **queries(url)}
            rows.clear()
            progress.step("counting calls")
            found |= calls_of(rows.make_webhooks([url] * WEBHOOKS, subscribers=SUBSCRIBERS))
        rows.clear()
        return found


def size(package: Path = PACKAGE) -> Figures:
    """Return the numbers of modules, lines and lines of code, which are neither imports, docstrings nor comments."""
    texts = [path.read_text() for path in package.rglob("*.py")]
    return {
        "modules": float(len(texts)),
        "lines": float(sum(text.count("\n") for text in texts)),
        "code_lines": float(sum(map(code_lines, texts))),
    }


def code_lines(text: str) -> int:
    """Return the number of lines without blank ones, comments, imports and docstrings, also those of attributes."""
    numbers = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                numbers -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(numbers)


def walks(url: str) -> Figures:
    """Return the files and functions of the package that each walk passes, not for the first time."""
    owner = get_user_model().objects.create_superuser("root")
    rows.subscribe([(owner, url)])
    console = Client()
    console.force_login(owner)
    _, key = ApiKey.objects.make(owner=owner)
    passed: Passed = {}
    for _ in range(2):
        with profiling(passed, "emit"):
            rows.emit_one(owner)
        _send(passed, "send")
        with profiling(passed, "redeliver"):
            _redeliver(console)
        _send(passed, "send_again")
        with profiling(passed, "register"):
            _register(key, url)
        _send(passed, "handshake")
    del passed["send_again"]
    found = {f"{name}_files": len({file for file, _ in functions}) for name, functions in passed.items()}
    return {**found, **{f"{name}_functions": len(functions) for name, functions in passed.items()}}


@contextmanager
def profiling(passed: Passed, walk: str) -> Generator[None]:
    """Collect the file and the first line of each function of the package that runs, in this thread and in new ones.

    Comprehensions belong to their functions, although Python 3.11 gives them frames of their own.
    """
    found = passed[walk] = set()
    inside = f"{PACKAGE}/"

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(inside) and code.co_name not in COMPREHENSIONS:
            found.add((code.co_filename, code.co_firstlineno))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _send(passed: Passed, walk: str) -> None:
    engine = Engine()
    with profiling(passed, walk):
        engine.run_until_idle(await_retries=False)
    last = Delivery.objects.latest("pk")
    if last.state != Delivery.State.SUCCEEDED:
        raise RuntimeError(f"{last} is {last.state}.")


def _redeliver(console: Client) -> None:
    form = {"action": "redeliver", "_selected_action": Delivery.objects.latest("pk").pk, "confirmed": "yes"}
    answer = console.post(reverse("admin:webhooks_app_delivery_changelist"), form)
    if answer.status_code != 302 or Delivery.objects.latest("pk").redelivery_of_id is None:
        raise RuntimeError(f"Nothing was redelivered: {answer.status_code}.")


def _register(key: str, url: str) -> None:
    new = {"url": url, "events": [rows.EVENT_TYPE]}
    headers = {"Authorization": f"Bearer {key}"}
    answer = Client().post("/v1/webhooks", new, content_type="application/json", headers=headers)
    if answer.status_code != 201:
        raise RuntimeError(f"No webhook was registered: {answer.content!r}.")


def _finished(webhook: Webhook) -> Delivery:
    """Return the latest delivery to a webhook, which was given up."""
    delivery = webhook.deliveries.latest("pk")
    QueueEntry.objects.filter(pk=delivery.pk).delete()
    Delivery.objects.filter(pk=delivery.pk).update(state=Delivery.State.GIVEN_UP)
    return delivery


def queries(url: str) -> Figures:
    """Return the statements of each operation, not for the first time."""
    owner = get_user_model().objects.create(username="owner")
    acts: dict[str, Callable[[Any], object]] = {
        "register": lambda _: registration.register_webhook(owner=owner, url=url, event_types=[rows.EVENT_TYPE]),
        "update": lambda webhook: registration.update_webhook(_described(webhook), actor=PROJECT),
        "pause": lambda webhook: lifecycle.pause(webhook, actor=PROJECT),
        "resume": lambda webhook: lifecycle.resume(webhook, actor=PROJECT),
        "disable": lambda webhook: lifecycle.disable(webhook, actor=PROJECT),
        "enable": lambda webhook: lifecycle.enable(webhook, actor=PROJECT),
        "rotate": lambda webhook: rotation.rotate_secret(webhook, actor=PROJECT),
        "test": lambda webhook: sending.send_test_event(webhook, rows.EVENT_TYPE),
        "redeliver": lambda delivery: sending.redeliver(delivery, actor=PROJECT),
        "verify": lambda webhook: lifecycle.start_verification(webhook, actor=PROJECT),
        "delete": lambda webhook: lifecycle.delete(webhook, actor=PROJECT),
    }
    found = {}
    for _ in range(2):
        (webhook,) = rows.subscribe([(owner, url)])
        for name, act in acts.items():
            current = Webhook.objects.get(pk=webhook.pk)
            row = _finished(current) if name == "redeliver" else current
            found[f"{name}_queries"] = float(len(statements_of(partial(act, row))))
    return found


def _described(webhook: Webhook) -> Webhook:
    webhook.description = "Counted."
    return webhook
