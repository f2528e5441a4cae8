"""``make_demo_data``"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management.base import CommandError
from django.db.models.signals import post_save
from django.utils import timezone

from demo_data.deletion import DemoDeletion
from demo_data.writing import Size, make_demo_data
from tests.support.retries import NEVER
from tests.support.rows import emit_one, make_webhook
from webhooks_app.conf import settings as conf
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.retention import Pruned, prune
from webhooks_app.maintenance.rollups.reading import ever
from webhooks_app.models import (
    Delivery,
    DeliveryAttempt,
    Event,
    EventReference,
    MaintenanceJob,
    Problem,
    QueueEntry,
    Rollup,
    Webhook,
    WebhookHealth,
)
from webhooks_app.models.rollup import EVERY_WEBHOOK, id_of_account
from webhooks_app.routing.report import Reason, decide
from webhooks_app.transport.memory import MemoryTransport

from ..support.commands import Output

Run = Callable[..., Output]

MILLISECOND, MINUTES = timedelta(milliseconds=1), timedelta(minutes=3)


@pytest.fixture
def made(run: Run, db: None) -> Output:
    return run("make_demo_data", "--deliveries", "400", "--webhooks", "12", "--owners", "3", "--force")


def test_the_command_prints_the_numbers_of_rows(made: Output) -> None:
    assert made.stdout.startswith("Created 12 webhooks and 400 deliveries in ")
    assert (Webhook.objects.count(), Delivery.objects.count()) == (12, 400)
    assert Event.objects.filter(deliveries=None).count() == 0


def test_an_event_goes_to_every_subscribed_webhook_of_its_owner(made: Output) -> None:
    *events, _last = Event.objects.order_by("pk")
    events = events[::3]
    decisions = [decision for event in events for decision in decide(event, with_platform=True)]

    reasons = Counter(decision.reason for decision in decisions)
    assert set(reasons) == {Reason.SENT, Reason.NOT_SUBSCRIBED, Reason.PENDING, Reason.FAILED, Reason.DISABLED}
    assert reasons[Reason.SENT] > 2 * len(events)


def test_there_are_webhooks_of_every_status_and_deliveries_of_every_final_state(made: Output) -> None:
    assert set(Webhook.objects.values_list("status", flat=True)) == set(Webhook.Status)
    assert Webhook.objects.filter(owner=None).exists()
    states = set(Delivery.objects.values_list("state", flat=True))
    assert states == set(Delivery.State) - {Delivery.State.PENDING}


def test_each_delivery_has_the_attempts_that_it_counts(made: Output) -> None:
    counted = Counter(DeliveryAttempt.objects.values_list("delivery_id", flat=True))

    assert {pk: count for pk, count in Delivery.objects.values_list("pk", "attempt_count") if count} == counted
    assert (
        not DeliveryAttempt.objects.filter(delivery__state="succeeded", number=1, result="succeeded")
        .exclude(delivery__attempt_count=1)
        .exists()
    )
    assert {1, 2, 3, 4} == set(counted.values())


def test_no_row_contradicts_another(run: Run, db: None) -> None:
    run("make_demo_data", "--deliveries", "1200", "--webhooks", "12", "--owners", "3", "--days", "20", "--force")

    attempts = list(DeliveryAttempt.objects.select_related("delivery__webhook"))
    for each in attempts:
        assert each.result != "timeout" or each.duration_ms == 30_000
        assert each.result != "dns_error" or f"{urlsplit(each.url).hostname}" in each.message
        assert each.started_at + timedelta(milliseconds=each.duration_ms) <= each.delivery.finished_at + MILLISECOND
    for delivery in Delivery.objects.select_related("webhook"):
        webhook = delivery.webhook
        assert delivery.finished_at >= delivery.created_at >= webhook.created_at
        assert webhook.status != "disabled" or delivery.finished_at <= webhook.status_changed_at + MINUTES
        assert webhook.paused_at is None or delivery.created_at <= webhook.paused_at
        is_cancelled = delivery.state == Delivery.State.CANCELLED
        assert is_cancelled == (delivery.attempt_count == 0)
        assert not is_cancelled or delivery.finished_at == webhook.status_changed_at
    for health in WebhookHealth.objects.exclude(failing_since=None):
        assert timezone.now() - health.failing_since < timedelta(days=conf.AUTO_DISABLE_AFTER_DAYS)


def test_an_event_looks_like_an_emitted_event(made: Output) -> None:
    for event in Event.objects.all()[:20]:
        assert event.data
        assert f'"id":"{event.pk}","type":"{event.type}"' in event.body
        assert int(event.pk[4:16], 16) == int(event.created_at.timestamp() * 1000)


def test_an_event_is_found_by_the_identifiers_in_its_data(made: Output) -> None:
    event = Event.objects.filter(type="ppt.generation.completed").last()

    assert event.data["ppt_id"].startswith("ppt_")
    assert EventReference.newest_events(event.data["ppt_id"]) == [event.pk]
    assert {event.data["ppt_id"], event.data["user_id"]} <= set(event.references.values_list("value", flat=True))


def test_the_overview_counts_them(made: Output) -> None:
    assert ever()["given_up"] == Delivery.objects.filter(state=Delivery.State.GIVEN_UP).count()


@pytest.mark.django_db(transaction=True)  # as for a user, without an outer transaction
def test_webhooks_that_never_succeed_are_failing(made: Output) -> None:
    failing = Webhook.objects.filter(health__failing_since__isnull=False).values_list("url", flat=True)

    assert any("//unknown-" in url for url in failing)
    assert not any("//healthy-" in url for url in failing)


def test_the_failed_attempts_are_grouped_into_problems(made: Output) -> None:
    failed = DeliveryAttempt.objects.exclude(result="succeeded").filter(delivery__kind=Delivery.Kind.EVENT)
    counted = Counter(failed.values_list("delivery__webhook", "result"))

    noted: Counter[tuple[str, str]] = Counter()
    for webhook_id, result, count in Problem.objects.values_list("webhook", "result", "count"):
        noted[webhook_id, result] += count
    assert noted == counted
    (unknown,) = Webhook.objects.filter(url__contains="//unknown-")
    (problem,) = Problem.objects.filter(webhook=unknown, result="dns_error")
    first = Delivery.objects.filter(webhook=unknown, state=Delivery.State.GIVEN_UP).earliest("created_at")
    assert (problem.state, problem.missed_from) == (Problem.State.OPEN, first.created_at)
    assert (
        Problem.objects.filter(webhook__url__contains="//healthy-").exclude(state=Problem.State.RESOLVED).count() <= 1
    )


def test_the_recent_results_are_there_at_once(made: Output) -> None:
    health = WebhookHealth.objects.get(webhook__url__contains="//unknown-")

    week = health.recent["week"]
    assert week["finished"] > week["given_up"] > 0
    assert health.recent["day"]["finished"] <= week["finished"]
    assert MaintenanceJob.objects.get(name="recent").facts["as_of"]


def test_new_accounts_emit_no_events(run: Run, db: None, django_user_model: Any) -> None:
    saved: list[Any] = []

    def on_save(instance: Any, **kwargs: Any) -> None:
        saved.append(instance)

    post_save.connect(on_save, sender=django_user_model)
    try:
        run("make_demo_data", "--deliveries", "20", "--owners", "3", "--force")
    finally:
        post_save.disconnect(on_save, sender=django_user_model)

    assert saved == []
    users = django_user_model.objects.all()
    assert sorted(user.get_username() for user in users) == ["demo-1", "demo-2", "demo-3"]
    assert not any(user.has_usable_password() for user in users)


def test_demo_deliveries_are_not_sent(made: Output) -> None:
    Engine().run_until_idle()

    assert not QueueEntry.objects.exists()
    assert all(".invalid/" in url for url in Webhook.objects.values_list("url", flat=True))


def test_the_same_seed_makes_the_same_rows(db: None) -> None:
    until = timezone.now()

    histories = []
    for seed in (3, 3, 4):
        make_demo_data(Size(deliveries=100, due=10, owners=3, webhooks=12, seed=seed), until=until, chunk=30)
        histories.append(list(Delivery.objects.order_by("pk").values_list("pk", "event", "state", "finished_at")))
        DemoDeletion("default").run(lambda count: None)

    assert histories[0] == histories[1] != histories[2]


def test_progress_covers_every_delivery(db: None) -> None:
    made: list[int] = []

    make_demo_data(Size(deliveries=500, due=100, webhooks=12), until=timezone.now(), chunk=200, progress=made.append)

    assert sum(made) == Delivery.objects.count() == 600
    assert max(made) <= 200 + 12


def test_a_policy_without_retries_has_no_second_attempts(run: Run, db: None, settings: Any) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = [NEVER]

    run("make_demo_data", "--deliveries", "200", "--webhooks", "12", "--force")

    assert set(DeliveryAttempt.objects.values_list("number", flat=True)) == {1}


def test_due_deliveries_are_due(run: Run, db: None) -> None:
    output = run("make_demo_data", "--deliveries", "100", "--due", "30", "--force")

    pending = Delivery.objects.pending()
    assert output.stdout.startswith("Created 24 webhooks and 130 deliveries, 30 of them due, in ")
    assert pending.filter(queue_entry__due_at__lte=timezone.now(), attempt_count=0).count() == 30
    assert not pending.exclude(webhook__status="active", webhook__paused_at=None).exists()


def test_rows_past_retention_are_already_pruned(run: Run, db: None) -> None:
    run("make_demo_data", "--deliveries", "200", "--days", "60", "--force")

    assert Event.objects.filter(body="").count() == pytest.approx(Event.objects.count() / 2, abs=5)
    assert prune() == Pruned()


def test_deletion_keeps_other_rows(run: Run, db: None, django_user_model: Any) -> None:
    mine = django_user_model.objects.create_user("demo-me", password="secret")
    make_webhook(mine)
    emit_one(mine)
    Engine(transport=MemoryTransport(transport_options())).run_until_idle()
    run("make_demo_data", "--deliveries", "300", "--webhooks", "12", "--due", "5", "--force")
    emit_one(mine)  # The demo's platform webhook receives it.

    output = run("make_demo_data", "--delete", "--force")

    assert output.stdout.startswith("Deleted the demo's accounts, webhooks and 306 deliveries in ")
    assert list(django_user_model.objects.all()) == [mine]
    assert [webhook.owner for webhook in Webhook.objects.all()] == [mine]
    assert (Event.objects.count(), Delivery.objects.count(), DeliveryAttempt.objects.count()) == (2, 2, 1)
    assert set(EventReference.objects.values_list("event", flat=True)) <= set(
        Event.objects.values_list("pk", flat=True)
    )
    assert (ever()["succeeded_at_once"], ever()["given_up"]) == (1, 0)
    counted = {EVERY_WEBHOOK, id_of_account(mine.pk), Webhook.objects.get().pk}
    assert set(Rollup.objects.values_list("webhook_id", flat=True)) == counted


def test_production_is_refused(run: Run, db: None) -> None:
    with pytest.raises(CommandError, match="DEBUG is off"):
        run("make_demo_data")

    assert not Webhook.objects.exists()


@pytest.mark.parametrize("option", ["--deliveries", "--owners", "--webhooks", "--days"])
def test_an_invalid_number_is_refused(run: Run, db: None, option: str) -> None:
    with pytest.raises(CommandError, match=f"{option} is 0"):
        run("make_demo_data", "--force", option, "0")
