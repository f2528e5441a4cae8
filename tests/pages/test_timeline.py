"""The timeline of an event: its steps, its lanes, and its limits."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from tests.support.plans import rows_read, update_statistics
from tests.support.rows import emit_one, end_deliveries, make_webhook
from webhooks_app.models import Delivery, DeliveryAttempt, Event, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.sending import redeliver
from webhooks_app.pages import timeline
from webhooks_app.pages.timeline import deliveries_read, timeline_of
from webhooks_app.pages.timeline_chart import Timeline
from webhooks_app.testing import Webhooks

pytestmark = pytest.mark.django_db

EVENT_TYPE = "ppt.generation.failed"


@pytest.fixture
def owner() -> Any:
    return get_user_model().objects.create_user("amina")


def of(event: Event, deliveries: Any = None) -> Timeline:
    rows: Any = event.deliveries.all() if deliveries is None else deliveries
    found = timeline_of(event, rows, deliveries_read(rows), url=lambda pk: f"/{pk}/")
    assert found is not None
    return found


def kinds(found: Timeline) -> list[str]:
    return [step.kind for step in found.steps]


def test_every_step_is_in_the_table_and_in_the_chart(owner: Any) -> None:
    kit = Webhooks()
    webhook = kit.register(owner, EVENT_TYPE)
    kit.receiver.answers = (503, 200)
    event = emit_one(owner)
    kit.deliver()
    first = event.deliveries.get()
    again = redeliver(first, actor=PROJECT)

    found = of(event)

    assert Counter(kinds(found)) == Counter(["emitted", "attempt", "notice", "attempt", "again", "next"])
    assert [step.what for step in found.steps if step.kind == "notice"] == ["Retry notice: succeeded"]
    assert [step.url for step in found.steps if step.kind == "attempt"] == [f"/{first.pk}/"] * 2
    assert [step.url for step in found.steps if step.kind == "again"] == [f"/{again.pk}/"]
    (lane,) = found.lanes
    assert Counter(mark.kind for mark in lane.marks) == {"attempt": 2, "notice": 1, "again": 1}
    attempts = [mark for mark in lane.marks if mark.kind == "attempt"]
    assert [mark.label for mark in attempts] == ["503", "200"]
    assert "Attempt 1: status 503, " in attempts[0].title
    assert lane.url == f"/{again.pk}/"
    assert webhook.url.partition("://")[2][:10] in lane.name


def test_a_notice_about_another_event_is_left_out(owner: Any) -> None:
    kit = Webhooks()
    kit.register(owner, EVENT_TYPE)
    kit.receiver.answers = (503, 200)
    events = [emit_one(owner) for _ in range(3)]
    kit.deliver()

    assert [kinds(of(event)).count("notice") for event in events] == [1, 1, 1]


def test_webhooks_that_did_not_get_the_event_come_first(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_LANES", 2)
    webhooks = [make_webhook(owner, url=f"http://127.0.0.1:9000/{number}") for number in range(4)]
    event = emit_one(owner)
    end_deliveries(state=Delivery.State.SUCCEEDED)
    end_deliveries(event.deliveries.filter(webhook=webhooks[2]), state=Delivery.State.GIVEN_UP)
    end_deliveries(event.deliveries.filter(webhook=webhooks[3]), state=Delivery.State.CANCELLED)

    found = of(event)

    assert [lane.tone for lane in found.lanes] == ["bad", "open"]
    assert found.description == "Delivered to 2 of 4 webhooks."
    assert found.cut_short == "2 of 4 webhooks are shown, first those that did not get the event."


def test_a_redelivery_that_succeeded_ends_the_failure(owner: Any) -> None:
    make_webhook(owner)
    event = emit_one(owner)
    end_deliveries(state=Delivery.State.GIVEN_UP)
    redeliver(event.deliveries.get(), actor=PROJECT)
    end_deliveries(event.deliveries.filter(state=Delivery.State.PENDING), state=Delivery.State.SUCCEEDED)

    assert of(event).description == "Delivered to 1 of 1 webhook."


def test_a_wait_is_a_step_without_a_time(owner: Any) -> None:
    make_webhook(owner).pause()
    found = of(emit_one(owner))

    assert found.steps[-1].what == "Waiting: paused"
    assert found.steps[-1].at is None
    assert found.lanes[0].marks == []


def test_long_gaps_are_compressed_and_every_mark_is_inside(owner: Any) -> None:
    webhook = make_webhook(owner)
    event = emit_one(owner)
    delivery = event.deliveries.get()
    starts = [timedelta(milliseconds=40), timedelta(seconds=1), timedelta(hours=1), timedelta(days=3)]
    DeliveryAttempt.objects.bulk_create(
        DeliveryAttempt(
            delivery=delivery,
            number=number,
            url=webhook.url,
            started_at=delivery.created_at + start,
            duration_ms=100,
            result="timeout",
        )
        for number, start in enumerate(starts, 1)
    )

    found = of(event)

    places = [mark.x for mark in found.lanes[0].marks if mark.kind == "attempt"]
    assert places == sorted(set(places))
    assert all(found.left <= place < found.width for place in places)
    assert places[1] - found.left > 4
    assert [tick.label for tick in found.ticks] == ["Emitted", "+60 min", "+3 d"]


def test_an_event_without_deliveries_has_no_timeline(owner: Any) -> None:
    event = emit_one(owner)

    assert timeline_of(event, event.deliveries.all(), [], url=str) is None  # type: ignore[arg-type]


@pytest.mark.only_on("postgresql", "mariadb")
@pytest.mark.usefixtures("new_tables")
def test_the_cost_is_limited(owner: Any) -> None:
    make_webhook(owner)
    event = emit_one(owner)
    template = Webhook.objects.get()
    names = [field.attname for field in Webhook._meta.concrete_fields if field.attname != "id"]
    values = {name: getattr(template, name) for name in names}
    webhooks = Webhook.objects.bulk_create([Webhook(**values) for _ in range(10_000)], batch_size=1000)
    new = [Delivery(event=event, webhook=webhook, state="given_up") for webhook in webhooks]
    Delivery.objects.bulk_create(new, batch_size=1000)
    update_statistics()

    assert rows_read(lambda: of(event)) < timeline.MAX_DELIVERIES_READ + 1000
    assert "of more than 5000 webhooks" in of(event).cut_short
