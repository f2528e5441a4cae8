"""Screenshots for ``docs/console.md``, with demo data and a running receiver: ``make pictures``."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone
from PIL import Image
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from demo_data.writing import Size, make_demo_data
from tests.support.rows import make_webhook, plan_replay
from webhooks_app import __version__, emit
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.jobs import JOBS, fold_tallies, run_due
from webhooks_app.maintenance.runner import BEAT
from webhooks_app.models import Delivery, MaintenanceJob, Replay, Webhook, WebhookHealth, WorkerProcess
from webhooks_app.models.audit import Actor, Via, acting
from webhooks_app.operations.registration import register_webhook
from webhooks_app.receiver.local import Answers, LocalReceiver

from .conftest import Console
from .inspection import Look, looking
from .test_pages import url

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(300)]

DIRECTORY = Path(__file__).parents[2] / "docs" / "pictures"
LOOK = Look(theme="light", width=1280, height=800)
COLOURS = 256
SECRET = "a shared secret of the demo"


@dataclass(frozen=True, kw_only=True)
class Picture:
    """The path of a page, and steps before its screenshot."""

    path: Callable[[], str]
    then: Callable[[Tab], Any] = lambda tab: None
    height: int = 1600
    """Height at which the screenshot is cropped."""


def of_demo(profile: str) -> Webhook:
    return Webhook.objects.filter(description=f"Demo: {profile}").latest("pk")


def own() -> Webhook:
    """Return the webhook of the running receiver."""
    return Webhook.objects.get(description="Rendering farm")


def retried() -> Delivery:
    return own().deliveries.get(kind="event", attempt_count=2)


def given_up() -> Delivery:
    """Return a delivery of an event with various routing decisions."""
    return of_demo("down").deliveries.filter(state=Delivery.State.GIVEN_UP).latest("pk")


def a_planned_replay() -> Replay:
    """Plan a replay of the last day's given-up deliveries."""
    return plan_replay(of_demo("down"), since=timezone.now() - timedelta(days=1))


def fill_in(tab: Tab) -> None:
    tab.fill("[name=url]", "http://10.0.0.1/webhooks")
    tab.press("[name=url]", "Tab")
    tab.wait_for_selector(".webhooks-bad")


def make_key(tab: Tab) -> None:
    tab.fill("[name=owner]", "root")
    tab.fill("[name=name]", "Continuous integration")
    tab.check("[name=scopes][value='webhooks:read']")
    with tab.expect_navigation():
        tab.click("input[name=_save]")


PICTURES = {
    "overview": Picture(path=lambda: reverse("admin:app_list", args=["webhooks_app"]) + "?window=week"),
    "search": Picture(path=lambda: url("webhook_search", query="?q=example"), height=900),
    "receivers": Picture(path=lambda: url("receivers_changelist", query="?window=week"), height=1000),
    "webhooks": Picture(path=lambda: url("webhook_changelist")),
    "webhook-add": Picture(path=lambda: url("webhook_add"), then=fill_in),
    "webhook": Picture(path=lambda: url("webhook_change", own().pk) + "?window=hour", height=1400),
    "webhook-failing": Picture(path=lambda: url("webhook_change", of_demo("down").pk) + "?window=week", height=1250),
    "test-event": Picture(path=lambda: url("webhook_act", own().pk, "send_test")),
    "deliveries": Picture(path=lambda: url("delivery_changelist")),
    "events": Picture(path=lambda: url("event_changelist"), height=1000),
    "delivery": Picture(path=lambda: url("delivery_change", retried().pk)),
    "event": Picture(path=lambda: url("event_change", given_up().event_id)),
    "event-types": Picture(path=lambda: url("eventtypes_changelist"), height=1000),
    "event-type": Picture(path=lambda: url("webhook_event_type", "ppt.generation.completed")),
    "replay-plan": Picture(path=lambda: url("replay_add", query=f"?webhook={of_demo('down').pk}")),
    "replay": Picture(path=lambda: url("replay_change", a_planned_replay().pk)),
    "api-key": Picture(path=lambda: url("apikey_add"), then=make_key),
    "api-keys": Picture(path=lambda: url("apikey_changelist")),
    "audit": Picture(path=lambda: url("auditentry_changelist")),
    "operations": Picture(path=lambda: url("operations_changelist")),
}


@pytest.fixture
def receiver() -> Iterator[LocalReceiver]:
    with LocalReceiver(secrets=[SECRET]) as receiver:
        yield receiver


@pytest.fixture
def busy_console(empty_console: Console, receiver: LocalReceiver, settings: Any) -> Console:
    """The console of a service with a week of history, and one webhook with a running receiver."""
    settings.DEBUG = True  # no findings of the doctor about the test settings
    # Sent first, because deliveries to the demo's receivers would delay it.
    webhook = register_webhook(
        owner=empty_console.superuser,
        url=f"{receiver.url}webhooks",
        event_types=["ppt.generation.completed", "ppt.generation.failed"],
        description="Rendering farm",
        secret=SECRET,
    )
    make_webhook(empty_console.superuser, "user.subscribed", url="https://accounting.example.com/webhooks")
    old = make_webhook(empty_console.superuser, "ppt.generation.failed", url="https://mirror.example.com/webhooks")
    with acting(Actor(via=Via.CONSOLE, account=empty_console.superuser)):
        webhook.pause()
        webhook.resume()
        old.disable("Replaced by the rendering farm.")
    Engine().run_until_idle()
    for statuses in ((200,), (503, 200), (200,)):
        receiver.answers = Answers(statuses=statuses, delay_seconds=0.05)
        emit("ppt.generation.failed", {"error": "No outline"}, owner=webhook.owner)
        Engine().run_until_idle()
    now = timezone.now()
    fold_tallies("default", now, {})
    make_demo_data(Size(deliveries=6000, owners=3, webhooks=12, days=7), until=now - timedelta(minutes=5))
    # The platform's webhook existed at that time, but did not receive these events.
    Webhook.objects.filter(owner=None).update(owner=get_user_model().objects.get(username="demo-1"))
    make_health(now)
    make_workers(now)
    return empty_console


def make_health(now: datetime) -> None:
    """Set the failing webhooks of the demo to failing for days, with their owners notified."""
    since = now - timedelta(days=3)
    refused = {"refused_since": since, "refused_at": now, "refused_count": 736, "refused": {"connection_error": 736}}
    lost = {"given_up_since": since, "given_up_count": 184, "missed_from": since}
    failing = {"failing_since": since, **refused, **lost, "warned_at": since + timedelta(days=2.5)}
    for profile in ("down", "unknown"):
        last = {"last_given_up_at": now - timedelta(minutes=5)}
        WebhookHealth.objects.update_or_create(webhook=of_demo(profile), defaults={**failing, **last})


def make_workers(now: datetime) -> None:
    """Create the records of two workers and beat."""
    for number in (1, 2):
        WorkerProcess.objects.create(
            id=f"worker-{number}",
            host=f"worker-{number}.example.com",
            pid=4100 + number,
            version=__version__,
            transport="native",
            started_at=now - timedelta(days=2),
            seen_at=now + timedelta(minutes=2),
            in_flight=7 * number,
        )
    MaintenanceJob.objects.ensure([BEAT, *(job.name for job in JOBS)])
    run_due("default", timezone.now)
    MaintenanceJob.objects.filter(name=BEAT).update(ended_at=now + timedelta(minutes=2))


def test_every_page_has_its_picture_taken(browser: Browser, busy_console: Console) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    for old in DIRECTORY.glob("*.png"):
        old.unlink()
    for name, picture in PICTURES.items():
        with looking(browser, busy_console, LOOK) as (tab, problems):
            tab.add_init_script("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
            tab.goto(busy_console.address + picture.path())
            picture.then(tab)
            save(tab.screenshot(full_page=True), DIRECTORY / f"{name}.png", picture.height)
            assert problems == [], name


def save(screenshot: bytes, path: Path, height: int) -> None:
    """Write the upper part of a screenshot with a reduced palette."""
    image = Image.open(io.BytesIO(screenshot)).convert("RGB")
    image = image.crop((0, 0, image.width, min(image.height, height)))
    # This method preserves rare colours, such as those of charts.
    few = image.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
