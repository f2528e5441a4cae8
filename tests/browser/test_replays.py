"""Replay of missed events by clicking, from the page of a disabled webhook to the end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Browser

from webhooks_app.maintenance.jobs import advance_replays
from webhooks_app.models import Delivery, Replay, Webhook

from ..support.rows import EVENT_TYPE, emit_one, make_webhook
from .conftest import Console
from .inspection import LOOKS, looking
from .test_pages import url

pytestmark = pytest.mark.only_on("sqlite")


def test_missed_events_are_replayed_by_clicking(browser: Browser, empty_console: Console) -> None:
    webhook = make_webhook(empty_console.superuser, EVENT_TYPE)
    webhook.disable("Out of order.")
    missed = emit_one(empty_console.superuser)
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1), status=Webhook.Status.ACTIVE)

    with looking(browser, empty_console, LOOKS[0]) as (tab, problems):
        tab.goto(empty_console.address + url("webhook_change", webhook.pk))
        tab.click("text=Replay events")
        tab.click("input[value=Preview]")
        tab.wait_for_selector("text=1 event would be sent.")
        assert missed.pk in tab.inner_text("#content")
        tab.click("button:has-text('Start')")
        tab.wait_for_selector("text=Running: 0 of 1 queued.")
        advance_replays("default", timezone.now(), {})
        tab.wait_for_selector("text=Done:")
        assert problems == []

    assert Replay.objects.get().deliveries.get().event == missed


def test_the_page_of_an_ended_replay_is_refreshed_slowly_and_then_no_longer(
    browser: Browser, empty_console: Console
) -> None:
    webhook = make_webhook(empty_console.superuser, EVENT_TYPE)
    now = timezone.now()
    replay = Replay.objects.create(webhook=webhook, since=now, until=now, state=Replay.State.DONE, finished_at=now)
    Delivery.objects.queue(event=emit_one(empty_console.superuser), webhook=webhook, replay=replay)

    with looking(browser, empty_console, LOOKS[0]) as (tab, problems):
        tab.clock.install()
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url) if "/live/" in request.url else None)
        tab.goto(empty_console.address + url("replay_change", replay.pk))
        tab.clock.fast_forward(15_000)
        assert asked == []
        Replay.objects.update(finished_at=now - timedelta(minutes=6))
        tab.clock.fast_forward(10_000)
        tab.wait_for_selector("text=This page is no longer refreshed.")
        tab.clock.fast_forward(60_000)
        assert len(asked) == 1
        assert problems == []
