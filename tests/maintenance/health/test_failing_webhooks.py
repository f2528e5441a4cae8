"""Webhooks that fail for days, recover or are disabled, with a simulated clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import mail
from django.test import override_settings

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.maintenance.health import watch
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.models import AuditEntry, MaintenanceJob, Webhook, WebhookHealth
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.signals import webhook_being_disabled
from webhooks_app.transport.memory import MemoryTransport

from ...delivery.conftest import echo_challenge
from ...support.rows import emit_one, make_webhook
from .conftest import Days

pytestmark = pytest.mark.django_db


def subjects():
    return [message.subject for message in mail.outbox]


def test_a_webhook_failing_for_five_days_is_warned_about_once_and_disabled_once(days, signals):
    webhook = days.webhook
    waiting = emit_one(webhook.owner).deliveries.get()

    days.fail_until(2.25)
    assert [name for name, _ in signals] == ["failing"]
    days.fail_until(4.75)
    facts = {
        "webhook_id": webhook.pk,
        "failing_since": days.began_at,
        "waiting": 1,
        "failed_requests": 0,
        "result": "",
        "status_code": None,
        "disables_at": days.began_at + timedelta(days=5),
    }
    assert signals == [
        ("failing", {**facts, "given_up": 2, "is_warning": False}),
        ("warning", {**facts, "given_up": 11, "is_warning": True}),
    ]
    days.fail_until(8)

    webhook.refresh_from_db()
    waiting.refresh_from_db()
    assert [name for name, _ in signals] == ["failing", "warning", "disabled"]
    assert subjects() == [f"Webhook {webhook.pk} {text}" for text in ("is failing", "will be disabled", "is disabled")]
    assert (webhook.status, waiting.state) == ("disabled", "cancelled")
    assert AuditEntry.objects.get(action="webhook.disabled").via == "system"
    assert (
        webhook.status_reason == f"Every delivery was given up for 5 days: 21 since {days.began_at:%Y-%m-%d %H:%M} UTC."
    )


def test_a_success_restarts_the_period_and_is_reported(days, signals):
    days.fail_until(4.75)
    days.succeed()
    days.look()
    days.clock.advance(900)
    days.look()
    days.fail_until(9.5)

    assert [name for name, _ in signals] == ["failing", "warning", "recovered", "failing", "warning"]
    assert signals[2][1] == {"webhook_id": days.webhook.pk, "failed_since": days.began_at}
    assert subjects()[2] == f"Webhook {days.webhook.pk} works again"
    assert mail.outbox[2].to == ["alice@example.com"]


def test_a_success_before_the_announcement_is_not_reported(days, signals):
    days.give_up()
    days.look()
    days.clock.advance(14 * 60)
    days.succeed()
    days.look()

    assert (signals, subjects()) == ([], [])


@pytest.mark.parametrize("every_hours", [23, 240], ids=["too-few", "one"])
def test_few_failures_cause_no_warning(days, signals, every_hours):
    days.fail_until(8, every_hours)

    assert [name for name, _ in signals] == ["failing"]


def test_after_days_without_an_evaluation_the_warning_precedes_the_disabling(days, signals):
    for _ in range(10):
        days.give_up()
        days.clock.advance(3600 * 2)
    days.clock.advance(86_400 * 6)
    days.look()

    assert [name for name, _ in signals] == ["warning", "disabled"]
    assert subjects() == [f"Webhook {days.webhook.pk} is disabled"]


def test_an_unfolded_success_prevents_disabling(days, signals):
    days.fail_until(4.75)
    days.clock.advance(86_400)
    days.succeed()

    watch("default", days.clock())

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.ACTIVE


def test_a_success_recorded_during_the_evaluation_prevents_disabling(days, signals):
    days.fail_until(4.75)
    days.clock.advance(86_400)

    def succeed(sender, **kwargs):
        days.succeed()

    webhook_being_disabled.connect(succeed)
    days.look()
    webhook_being_disabled.disconnect(succeed)

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.ACTIVE
    assert [name for name, _ in signals] == ["failing", "warning"]


def test_only_successes_of_the_webhook_itself_count(days):
    days.fail_until(4.75)
    days.clock.advance(86_400)
    Days(make_webhook(days.webhook.owner), days.clock).succeed()

    watch("default", days.clock())

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.DISABLED


def test_failures_before_a_pause_do_not_count_after_it(days, signals):
    days.fail_until(3)
    days.webhook.pause()
    days.clock.advance(86_400 * 5)
    days.look()
    days.webhook.resume()

    days.fail_until(9)

    assert [name for name, _ in signals] == ["failing", "warning", "failing"]
    assert days.webhook.health.failing_since >= days.began_at + timedelta(days=8)


def enable(webhook):
    webhook.disable("Enough.")
    lifecycle.enable(webhook, actor=PROJECT)


def move(webhook):
    update_webhook(webhook, url=f"{webhook.url}/elsewhere", actor=PROJECT)
    transport = MemoryTransport(transport_options(), answer=echo_challenge)
    Engine(transport=transport).run_until_idle(await_retries=False)


@pytest.mark.parametrize("change", [enable, move], ids=["enabled", "new-url"])
def test_a_change_of_the_webhook_restarts_the_period(days, signals, change):
    days.fail_until(4)
    signals.clear()

    change(days.webhook)

    health = WebhookHealth.objects.get()
    assert (health.failing_since, health.given_up_count) == (None, 0)
    assert (health.announced_at, health.warned_at) == (None, None)
    Webhook.objects.update(status="active")
    days.fail_until(6)
    assert [name for name, _ in signals if name == "warning"] == []


def test_a_webhook_disabled_meanwhile_is_not_reported_as_recovered(days, signals):
    days.fail_until(4)
    days.webhook.disable("Enough.")
    days.succeed()
    days.look()

    assert [name for name, _ in signals] == ["failing", "warning"]


@override_settings(WEBHOOKS_AUTO_DISABLE=False)
def test_automatic_disabling_can_be_turned_off(days, signals):
    days.fail_until(8)

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.ACTIVE
    assert [arguments["disables_at"] for _, arguments in signals] == [None, None]
    assert subjects() == [f"Webhook {days.webhook.pk} {text}" for text in ("is failing", "is still failing")]
    assert "disabled on" not in mail.outbox[1].body


@override_settings(WEBHOOKS_AUTO_DISABLE_AFTER_DAYS=1, WEBHOOKS_AUTO_DISABLE_MIN_DELIVERIES=3)
def test_the_limits_are_settings(days, signals):
    days.fail_until(1)

    assert [name for name, _ in signals] == ["failing", "warning", "disabled"]


def test_a_worker_uses_the_time_of_the_database(days):
    days.fail_until(4.75)
    days.clock.advance(86_400)
    MaintenanceJob.objects.ensure(["health"])
    (job,) = [job for job in JOBS if job.name == "health"]

    run_due("default", days.clock, [job])

    days.webhook.refresh_from_db()
    assert (MaintenanceJob.objects.get(name="health").error, days.webhook.status) == ("", "disabled")


def test_an_error_while_disabling_one_webhook_does_not_affect_the_next(days, owner):
    other = make_webhook(owner)
    for webhook, days_ago in ((days.webhook, 8), (other, 7)):
        since = days.clock() - timedelta(days=days_ago)
        WebhookHealth.objects.create(
            webhook=webhook, failing_since=since, given_up_since=since, given_up_count=20, last_given_up_at=days.clock()
        )

    def veto(sender, webhook, **arguments):
        if webhook == days.webhook:
            raise PermissionError("Not this one.")

    webhook_being_disabled.connect(veto)
    try:
        with pytest.raises(PermissionError, match=r"Not this one\."):
            watch("default", days.clock())
    finally:
        webhook_being_disabled.disconnect(veto)

    assert dict(Webhook.objects.values_list("pk", "status")) == {days.webhook.pk: "active", other.pk: "disabled"}
