"""No surface calls a receiver healthy whose last three requests failed: the API, pages, commands and metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from webhooks_app.database.clock import following
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance import jobs
from webhooks_app.models import MaintenanceJob, QueueEntry, WorkerProcess

from ...api.conftest import client_of
from ...delivery.conftest import ImpatientTransport, ManualClock
from ...support.reading import parsed, words
from ...support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db

COURSES = {
    "refused from the beginning": [500, 500, 500, 500],
    "refused after a success": [200, 500, 500, 500, 500],
    "refused after successes and failures": [500, 200, 500, 200, 503, 503, 503],
}


class World:
    """A webhook with these answers, one event each, and everybody who looks at it."""

    def __init__(self, owner: Any, root: Any, policy: str, answers: list[int]) -> None:
        self.owner = owner
        self.webhook = make_webhook(owner, retry_policy=policy, retry_notices=False)
        self.clock = ManualClock()
        self.clock.now = timezone.now() - timedelta(minutes=2)
        WorkerProcess.objects.create(host="a", pid=1, started_at=self.clock(), seen_at=timezone.now())
        self.api = client_of(owner)
        self.customer, self.console = Client(), Client()
        self.customer.force_login(owner)
        self.console.force_login(root)
        left = list(answers)
        transport = ImpatientTransport(self.clock, lambda _: left.pop(0) if len(left) > 1 else left[0])
        for _ in answers:
            self.event = emit_one(owner)
            QueueEntry.objects.filter(attempt=0).update(due_at=self.clock())
            QueueEntry.objects.filter(attempt__gt=0).update(due_at=self.clock() + timedelta(minutes=10))
            Engine(transport=transport, clock=self.clock).run_until_idle(await_retries=False)
            self.run_jobs()
            self.clock.advance(6)
        self.clock.now = timezone.now()
        QueueEntry.objects.update(due_at=self.clock() + timedelta(minutes=10))
        self.run_jobs()

    def run_jobs(self) -> None:
        with following(self.clock):
            for job in jobs.JOBS:
                if job.name in ("fold", "recent", "gauges"):
                    facts: dict[str, Any] = {}
                    job.run("default", self.clock(), facts)
                    MaintenanceJob.objects.update_or_create(
                        name=job.name, defaults={"facts": facts, "ended_at": self.clock()}
                    )


def page(client: Client, name: str, *args: Any) -> str:
    """Return what a reader of a page sees, without the choices of its forms."""
    answer = client.get(reverse(name, args=args), follow=True)
    assert answer.status_code == 200, name
    body = parsed(answer.content.decode()).find("main") or parsed(answer.content.decode())
    for part in body.select("select, nav, details.filter, #changelist-filter, script, style"):
        part.decompose()
    return words(body)


def customers(name: str) -> Callable[[World], str]:
    def read(world: World) -> str:
        args = [world.webhook.pk] if name == "webhook" else []
        return page(world.customer, f"webhooks_portal:{name}", str(world.owner.pk), *args)

    return read


def console(name: str) -> Callable[[World], str]:
    def read(world: World) -> str:
        args = [world.webhook.pk] if name.endswith("change") else []
        return page(world.console, f"admin:webhooks_app_{name}", *args)

    return read


def api(path: str) -> Callable[[World], str]:
    def read(world: World) -> str:
        return world.api.call("GET", f"/v1/webhooks{path.format(world.webhook.pk)}").content.decode()

    return read


def command(name: str) -> Callable[[World], str]:
    def read(world: World) -> str:
        output = StringIO()
        arguments = [world.event.pk] if name == "explain_event" else []
        with suppress(CommandError):  # the doctor finds no Celery here
            call_command(name, *arguments, stdout=output, stderr=output)
        return output.getvalue()

    return read


SURFACES: dict[str, tuple[Callable[[World], str], str]] = {
    "one webhook over the API": (api("/{}"), '"state":"failing"'),
    "webhooks over the API": (api(""), '"state":"failing"'),
    "failing ones over the API": (api("?health=failing"), '"state":"failing"'),
    "healthy ones over the API": (api("?health=healthy"), '"results":[]'),
    "customers' overview": (customers("overview"), "Failing"),
    "customers' list": (customers("webhooks"), "Failing"),
    "customers' page": (customers("webhook"), "Failing"),
    "console's list": (console("webhook_changelist"), "Failing"),
    "console's page": (console("webhook_change"), "Failing"),
    "console's overview": (console("webhook_overview"), "failing"),
    "Receivers": (console("receivers_changelist"), "Failing"),
    "Problems": (console("problem_changelist"), "500"),
    "explain_event": (command("explain_event"), "Failing"),
    "doctor": (command("webhooks_doctor"), "Failing (1)"),
    "metrics": (lambda world: world.console.get("/metrics").content.decode(), 'health="failing"} 1.0'),
}
HEALTHY = re.compile(r'\bHealthy\b|"state": ?"healthy"|health="healthy"} 1')


@pytest.mark.parametrize("policy", ["specification", "extended"])
@pytest.mark.parametrize("answers", COURSES.values(), ids=COURSES)
def test_no_surface_calls_a_receiver_healthy_whose_last_three_requests_failed(
    django_user_model: Any, answers: list[int], policy: str
) -> None:
    owner = django_user_model.objects.create_user("alice")
    world = World(owner, django_user_model.objects.create_superuser("root"), policy, answers)

    said = {surface: read(world) for surface, (read, _expected) in SURFACES.items()}

    assert {surface: text for surface, text in said.items() if HEALTHY.search(text)} == {}
    assert {surface: said[surface] for surface, (_, word) in SURFACES.items() if word not in said[surface]} == {}
