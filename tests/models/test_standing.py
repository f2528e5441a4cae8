"""The standing of a webhook, in Python and in SQL."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.maintenance.health import update_states
from webhooks_app.maintenance.rollups.folding import TalliedWebhook
from webhooks_app.models import Delivery, QueueEntry, Webhook, WebhookHealth, WorkerProcess
from webhooks_app.models.health import Thresholds, Trouble
from webhooks_app.models.standing import Standing, Waiting, conditions, health_of, healths_of, judged

from ..support.rows import emit_one, make_webhook

NOW = timezone.now()
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)

HEALTHS: dict[str, dict[str, Any] | None] = {
    "no row": None,
    "unused": {},
    "well": {"last_success_at": NOW},
    "one refused": {"refused_since": NOW, "refused_at": NOW, "refused_count": 1},
    "just refused": {"failing_since": NOW - 9 * SECOND, "refused_at": NOW, "refused_count": 3},
    "failing": {"failing_since": NOW - 10 * SECOND, "refused_at": NOW, "refused_count": 3},
    "given up": {"failing_since": NOW, "given_up_since": NOW, "last_given_up_at": NOW, "given_up_count": 1},
    "partly": {"last_success_at": NOW, "trouble": Trouble.PARTLY},
    "slow": {"last_success_at": NOW, "trouble": Trouble.SLOW},
}
QUEUES: dict[str, dict[str, Any] | None] = {
    "empty": None,
    "due": {"due_at": NOW - MINUTE + SECOND},
    "late": {"due_at": NOW - MINUTE},
    "in flight": {"due_at": NOW - MINUTE, "claimed_at": NOW, "leased_until": NOW + MINUTE},
    "to be retried": {"due_at": NOW + MINUTE, "attempt": 1},
    "postponed": {"due_at": NOW + MINUTE},
}
CHOICES: list[dict[str, Any]] = [{}, {"rate_limit": 5}, {"max_in_flight": 1}, {"order": "key"}]
STATES: list[dict[str, Any]] = [
    *({"status": status, "paused_at": paused_at} for status in Webhook.Status.values for paused_at in (None, NOW)),
]


@pytest.fixture
def webhooks(django_user_model: Any) -> list[Webhook]:
    """One webhook for every combination."""
    owner = django_user_model.objects.create_user("alice")
    first = make_webhook(owner)
    delivery = emit_one(owner).deliveries.get()
    QueueEntry.objects.all().delete()
    made, healths, deliveries, entries = [], [], [], []
    for state, health, queue, choice in itertools.product(STATES, HEALTHS, QUEUES, CHOICES):
        if state != STATES[2] and (queue != "late" or choice):
            continue
        webhook = Webhook(owner=owner, url=first.url, event_types=first.event_types, **(state | choice))
        made.append(webhook)
        if (fields := HEALTHS[health]) is not None:
            healths.append(WebhookHealth(webhook=webhook, **fields))
        if (fields := QUEUES[queue]) is not None:
            deliveries.append(Delivery(webhook=webhook, event=delivery.event, max_attempts=4))
            entries.append(QueueEntry.of(deliveries[-1], None))
            for name, value in fields.items():
                setattr(entries[-1], name, value)
    Webhook.objects.bulk_create(made)
    WebhookHealth.objects.bulk_create(healths)
    Delivery.objects.bulk_create(deliveries)
    QueueEntry.objects.bulk_create(entries)
    return made


@pytest.mark.django_db
@pytest.mark.parametrize("has_worker", [True, False], ids=["with a worker", "without"])
def test_a_list_finds_each_webhook_by_the_state_that_it_shows(webhooks: list[Webhook], has_worker: bool) -> None:
    assert STATES[2] == {"status": "active", "paused_at": None}
    if has_worker:
        WorkerProcess.objects.create(host="a", pid=1, started_at=timezone.now(), seen_at=timezone.now())
    rows = Webhook.objects.select_related("health").in_bulk([webhook.pk for webhook in webhooks])

    shown = {pk: health.standing for pk, health in healths_of(rows.values(), NOW).items()}
    found = {
        each: set(rows) & set(Webhook.objects.filter(is_it).values_list("pk", flat=True))
        for each, is_it in conditions(NOW).items()
    }

    assert found == {each: {pk for pk in shown if shown[pk] is each} for each in Standing}
    assert [each for each in Standing if not found[each]] == ([] if has_worker else [Standing.HELD_BACK])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("requests", "seconds", "expected"),
    [
        (2, 60, Standing.HEALTHY),
        (3, 9, Standing.RETRYING),
        (3, 10, Standing.FAILING),
        (40, 0, Standing.RETRYING),
        (40, 3600, Standing.FAILING),
    ],
)
def test_a_receiver_fails_after_three_failed_requests_and_ten_seconds(
    django_user_model: Any, requests: int, seconds: int, expected: Standing
) -> None:
    webhook = make_webhook(django_user_model.objects.create_user("alice"))
    results = [TalliedWebhook(webhook.pk, NOW, {"failed_timeout": 1}, 0, refused={"500": 1}) for _ in range(requests)]
    well = TalliedWebhook(webhook.pk, NOW - MINUTE, {"succeeded_at_once": 1}, 0)
    update_states("default", [well, *results])

    found = health_of(Webhook.objects.get(), NOW + timedelta(seconds=seconds))

    assert (found.standing, found.failed_requests, found.cause) == (expected, requests, "500")


@pytest.mark.django_db
def test_the_first_success_ends_the_failure_and_names_the_commonest_cause_until_then(django_user_model: Any) -> None:
    webhook = make_webhook(django_user_model.objects.create_user("alice"))
    refused = TalliedWebhook(webhook.pk, NOW, {}, 0, refused={"timeout": 2, "503": 7})
    update_states("default", [refused])
    before = health_of(Webhook.objects.get(), NOW + MINUTE)

    update_states("default", [TalliedWebhook(webhook.pk, NOW + MINUTE, {"succeeded_later": 1}, 0)])
    after = health_of(Webhook.objects.get(), NOW + MINUTE)

    assert (before.standing, before.since, before.cause, before.failed_requests) == (Standing.FAILING, NOW, "503", 9)
    assert (after.standing, after.cause, after.failed_requests) == (Standing.HEALTHY, "", 0)


@pytest.mark.django_db
def test_after_lost_events_a_receiver_is_not_healthy_at_its_first_success(django_user_model: Any) -> None:
    webhook = make_webhook(django_user_model.objects.create_user("alice"))
    update_states("default", [TalliedWebhook(webhook.pk, NOW, {"given_up": 1}, 1, refused={"500": 1})])

    update_states("default", [TalliedWebhook(webhook.pk, NOW + MINUTE, {"succeeded_later": 1}, 0)])

    assert health_of(Webhook.objects.get(), NOW + MINUTE).standing is Standing.PARTLY_FAILING


@pytest.mark.parametrize(
    ("failed", "requests", "expected"),
    [(1, 9, False), (1, 10, True), (1, 11, False), (1, 100, True), (1, 101, False), (2, 200, True)],
)
def test_a_receiver_partly_fails_by_the_shares_of_its_requests(failed: int, requests: int, expected: bool) -> None:
    assert Thresholds().are_many_failed(failed, requests) is expected


@pytest.mark.django_db
def test_the_thresholds_are_settings(django_user_model: Any, settings: Any) -> None:
    settings.WEBHOOKS_HEALTH = {"failing_requests": 1, "failing_seconds": 0}
    webhook = make_webhook(django_user_model.objects.create_user("alice"))

    update_states("default", [TalliedWebhook(webhook.pk, NOW, {}, 0, refused={"500": 1})])

    assert health_of(Webhook.objects.get(), NOW).standing is Standing.FAILING


@pytest.mark.parametrize(
    ("status", "cause", "shown"),
    [
        ("active", "connection_error", "connection_error"),
        ("disabled", "connection_error", "unreachable"),
        ("disabled", "503", "503"),
        ("pending", "address_refused", "unreachable"),
    ],
)
def test_a_cause_is_masked_as_that_of_an_attempt(status: str, cause: str, shown: str) -> None:
    webhook = Webhook(status=status)
    health = WebhookHealth(webhook=webhook, refused={cause: 3}, refused_count=3)

    assert judged(webhook, health, Waiting(), NOW).cause == shown
