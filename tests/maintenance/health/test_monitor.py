"""Webhooks that fail for days: warned of, disabled, or well again, by a clock that is moved."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import mail
from django.test import override_settings

from webhooks_app.maintenance.health.monitor import watch
from webhooks_app.maintenance.jobs import JOBS, run_due
from webhooks_app.models import AuditEntry, MaintenanceJob, Webhook, WebhookHealth
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.signals import webhook_being_disabled

from ...support.rows import emit_one, make_webhook
from .conftest import Days

pytestmark = pytest.mark.django_db


def subjects():
    return [message.subject for message in mail.outbox]


def test_a_webhook_that_fails_for_five_days_is_warned_of_and_disabled_once_each(days, told):
    webhook = days.webhook
    waiting = emit_one(webhook.owner).deliveries.get()

    days.fail_until(2.25)
    assert told == []
    days.fail_until(4.75)
    assert told == [
        (
            "failing",
            {
                "webhook_id": webhook.pk,
                "failing_since": days.began_at,
                "given_up": 11,
                "disables_at": days.began_at + timedelta(days=5),
            },
        )
    ]
    days.fail_until(8)

    webhook.refresh_from_db()
    waiting.refresh_from_db()
    assert [name for name, _ in told] == ["failing", "disabled"]
    assert subjects() == [f"Webhook {webhook.pk} is failing", f"Webhook {webhook.pk} is disabled"]
    assert (webhook.status, waiting.state) == ("disabled", "cancelled")
    assert AuditEntry.objects.get(action="webhook.disabled").via == "system"
    assert (
        webhook.status_reason == f"Every delivery was given up for 5 days: 21 since {days.began_at:%Y-%m-%d %H:%M} UTC."
    )


def test_one_success_begins_it_anew_and_is_told_after_a_warning(days, told):
    days.fail_until(4.75)
    days.succeed()
    days.look()
    days.fail_until(9.5)

    assert [name for name, _ in told] == ["failing", "recovered", "failing"]
    assert told[1][1] == {"webhook_id": days.webhook.pk, "failed_since": days.began_at}
    assert subjects()[1] == f"Webhook {days.webhook.pk} works again"
    assert mail.outbox[1].to == ["alice@example.com"]


def test_a_success_before_any_warning_is_told_to_nobody(days, told):
    days.fail_until(2)
    days.succeed()
    days.look()

    assert (told, subjects()) == ([], [])


@pytest.mark.parametrize("every_hours", [23, 240], ids=["too-few", "one"])
def test_few_failures_are_no_reason(days, told, every_hours):
    days.fail_until(8, every_hours)

    assert told == []


def test_where_nobody_looked_for_days_both_are_told_in_their_order(days, told):
    for _ in range(10):
        days.give_up()
        days.clock.advance(3600 * 2)
    days.clock.advance(86_400 * 6)
    days.look()

    assert [name for name, _ in told] == ["failing", "disabled"]


def test_a_success_that_is_recorded_and_not_folded_yet_wins(days, told):
    days.fail_until(4.75)
    days.clock.advance(86_400)
    days.succeed()

    watch("default", days.clock())

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.ACTIVE


def test_a_success_that_is_recorded_while_it_is_being_disabled_wins(days, told):
    days.fail_until(4.75)
    days.clock.advance(86_400)

    def succeed(sender, **kwargs):
        days.succeed()

    webhook_being_disabled.connect(succeed)
    days.look()
    webhook_being_disabled.disconnect(succeed)

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.ACTIVE
    assert [name for name, _ in told] == ["failing"]


def test_a_webhook_is_judged_by_its_own_successes(days):
    days.fail_until(4.75)
    days.clock.advance(86_400)
    Days(make_webhook(days.webhook.owner), days.clock).succeed()

    watch("default", days.clock())

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.DISABLED


def test_what_was_paused_is_judged_by_what_comes_after(days, told):
    days.fail_until(3)
    days.webhook.pause()
    days.clock.advance(86_400 * 5)
    days.look()
    days.webhook.resume()

    days.fail_until(9)

    assert [name for name, _ in told] == ["failing"]
    assert days.webhook.health.failing_since >= days.began_at + timedelta(days=8)


def enable(webhook):
    webhook.disable("Enough.")
    lifecycle.enable(webhook, actor=PROJECT)


def move(webhook):
    update_webhook(webhook, url=f"{webhook.url}/elsewhere", actor=PROJECT)


@pytest.mark.parametrize("change", [enable, move], ids=["enabled", "new-url"])
def test_who_begins_anew_is_judged_anew(days, told, change):
    days.fail_until(4)
    told.clear()

    change(days.webhook)

    health = WebhookHealth.objects.get()
    assert (health.failing_since, health.given_up_count, health.warned_at) == (None, 0, None)
    Webhook.objects.update(status="active")
    days.fail_until(6)
    assert [name for name, _ in told if name == "failing"] == []


def test_a_webhook_that_was_disabled_meanwhile_did_not_recover(days, told):
    days.fail_until(4)
    days.webhook.disable("Enough.")
    days.succeed()
    days.look()

    assert [name for name, _ in told] == ["failing"]


@override_settings(WEBHOOKS_AUTO_DISABLE=False)
def test_it_need_not_be_disabled(days, told):
    days.fail_until(8)

    days.webhook.refresh_from_db()
    assert days.webhook.status == Webhook.Status.ACTIVE
    assert [arguments["disables_at"] for _, arguments in told] == [None]
    assert "disabled on" not in mail.outbox[0].body


@override_settings(WEBHOOKS_AUTO_DISABLE_AFTER_DAYS=1, WEBHOOKS_AUTO_DISABLE_MIN_DELIVERIES=3)
def test_its_numbers_are_settings(days, told):
    days.fail_until(1)

    assert [name for name, _ in told] == ["failing", "disabled"]


def test_a_worker_looks_by_the_time_of_the_database(days):
    days.fail_until(4.75)
    days.clock.advance(86_400)
    MaintenanceJob.objects.ensure(["health"])
    (job,) = [job for job in JOBS if job.name == "health"]

    run_due("default", days.clock, [job])

    days.webhook.refresh_from_db()
    assert (MaintenanceJob.objects.get(name="health").error, days.webhook.status) == ("", "disabled")


def test_a_veto_against_disabling_one_webhook_does_not_save_the_next(days, owner):
    other = make_webhook(owner)
    for webhook, days_ago in ((days.webhook, 8), (other, 7)):
        since = days.clock() - timedelta(days=days_ago)
        WebhookHealth.objects.create(
            webhook=webhook, failing_since=since, given_up_count=20, last_given_up_at=days.clock()
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
