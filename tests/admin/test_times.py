"""Times on the pages of the console: one format, in a ``time`` element, with its distance from now as the title."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.reading import column, parsed, words
from tests.support.rows import make_problem, plan_replay
from webhooks_app.models import ApiKey, Delivery, DeliveryAttempt, MaintenanceJob, WebhookHealth, WorkerProcess
from webhooks_app.pages.display import moment

from .conftest import Page, text

pytestmark = pytest.mark.only_on("sqlite")

ELSEWHERE = "time, svg, pre, code, script, option, textarea"
TIME = re.compile(r"\b20\d\d-\d\d-\d\d|\b\d\d?:\d\d\b|\b[ap]\.m\.")
ELEMENT = re.compile(r"<time\b([^>]*)>")


def pages(delivery: Delivery, api_key: ApiKey) -> list[str]:
    """Return the URLs of the pages with times."""
    webhook, replay = delivery.webhook, plan_replay(delivery.webhook, since=timezone.now() - timedelta(hours=1))
    problem = make_problem(webhook, 503, missed_from=timezone.now())
    webhook.pause()
    models = ("webhook", "delivery", "event", "problem", "replay", "auditentry", "apikey", "receivers", "operations")
    lists = [reverse(f"admin:webhooks_app_{model}_changelist") for model in models]
    rows = (delivery, delivery.event, problem, replay, webhook, api_key)
    changes = [f"/admin/webhooks_app/{row._meta.model_name}/{row.pk}/change/" for row in rows if row]
    sections = [
        f"/admin/webhooks_app/webhook/{webhook.pk}/change/?section={name}" for name in ("deliveries", "settings")
    ]
    others = [f"/admin/webhooks_app/webhook/{webhook.pk}/history/", reverse("admin:app_list", args=["webhooks_app"])]
    return [*lists, *changes, *sections, *others]


def test_every_time_is_in_an_element_with_its_date_and_zone(superuser: Page, delivery: Delivery) -> None:
    now = timezone.now()
    times = {"created_at": now, "expires_at": now + timedelta(days=1), "last_used_at": now, "revoked_at": now}
    api_key, _ = ApiKey.objects.make(owner=delivery.webhook.owner)
    ApiKey.objects.update(**times)
    facts = {"url": delivery.webhook.url, "result": "http_status", "response_status": 503, "duration_ms": 120}
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=now, **facts)
    Delivery.objects.update(attempt_count=1, last_result="http_status")
    WebhookHealth.objects.create(
        webhook=delivery.webhook, failing_since=now, given_up_since=now, last_given_up_at=now, given_up_count=3
    )
    WorkerProcess.objects.create(id="x", host="host", pid=1, version="1.0", started_at=now, seen_at=now)
    MaintenanceJob.objects.update_or_create(name="fold", defaults={"ended_at": now})
    make_tally(now, **{delivery.webhook_id: {"given_up": 2, "failed_timeout": 2, "ms_100": 1, "ms_sum": 80}})

    with_times = set()
    for url in pages(delivery, api_key):
        html = text(superuser.client.get(url))

        page = parsed(html)
        # Changed values are shown as they are stored, and the heading of a chart's times has their zone.
        for part in [*page.select(ELSEWHERE), *column(page, "Changes"), *column(page, "From (UTC)")]:
            part.decompose()
        assert TIME.findall(words(page)) == [], url
        elements = ELEMENT.findall(html)
        with_times.update([url] if elements else [])
        assert all('datetime="20' in attributes and 'title="' in attributes for attributes in elements), url

    assert len(with_times) >= 15


@pytest.mark.parametrize(
    ("at", "words", "expected"),
    [
        (timedelta(minutes=-5), "", ("2026-03-05 11:55:00 UTC", "5 min ago")),
        (timedelta(hours=3), "", ("2026-03-05 15:00:00 UTC", "in 3 h")),
        (timedelta(hours=3), "due", ("due", "2026-03-05 15:00:00 UTC")),
    ],
    ids=["past", "future", "in words"],
)
def test_the_title_of_a_time_is_its_distance_and_that_of_a_distance_its_time(
    monkeypatch: pytest.MonkeyPatch, at: timedelta, words: str, expected: tuple[str, str]
) -> None:
    now = datetime(2026, 3, 5, 12, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: now)

    html = moment(now + at, words)

    shown, title = expected
    assert html == f'<time datetime="{(now + at).isoformat()}" title="{title}">{shown}</time>'
