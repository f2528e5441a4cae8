"""Replay of missed events by clicking, from the page of a disabled webhook to the end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import Browser

from webhooks_app.maintenance.jobs import advance_replays
from webhooks_app.models import Replay, Webhook

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
        tab.click("text=Replay missed events")
        tab.click("input[value=Preview]")
        tab.wait_for_selector("text=1 event would be sent.")
        assert missed.pk in tab.inner_text("#content")
        tab.click("button:has-text('Start')")
        tab.wait_for_selector("text=Running: 0 of 1 queued.")
        advance_replays("default", timezone.now(), {})
        tab.wait_for_selector("text=Done: all events found are queued.")
        assert problems == []

    assert Replay.objects.get().deliveries.get().event == missed
