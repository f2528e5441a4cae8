"""Emails about failing webhooks: recipients, content and robustness."""

from __future__ import annotations

import threading

import django
import pytest
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.test import override_settings

from webhooks_app.maintenance import outgoing
from webhooks_app.maintenance.jobs import Job
from webhooks_app.maintenance.outgoing import Mail, send_soon, wait_for_mails
from webhooks_app.maintenance.runner import MaintenanceRunner
from webhooks_app.models import Announcement, Webhook, WebhookHealth, WorkerProcess
from webhooks_app.signals import webhook_being_disabled

from ...support.rows import make_webhook
from ...support.waiting import wait_until
from .conftest import Days

pytestmark = pytest.mark.django_db


class Broken(BaseEmailBackend):
    def send_messages(self, email_messages):
        raise OSError("No mail server.")


class Hanging(BaseEmailBackend):
    """A mail server that responds only on request."""

    answers = threading.Event()

    def send_messages(self, email_messages):
        assert self.answers.wait(120)
        mail.outbox.extend(email_messages)
        return len(email_messages)


def server(backend):
    path = f"{__name__}.{backend.__name__}"
    return {"MAILERS": {"default": {"BACKEND": path}}} if django.VERSION >= (6, 1) else {"EMAIL_BACKEND": path}


@pytest.fixture
def hanging(settings):
    for name, value in server(Hanging).items():
        setattr(settings, name, value)
    yield Hanging.answers
    Hanging.answers.set()
    wait_for_mails(30)
    Hanging.answers.clear()


@pytest.fixture
def webhook(owner):
    return make_webhook(owner, url="http://127.0.0.1:9000/hook?a=1&b=2")


def test_an_email_contains_the_webhook_and_the_dates(days):
    days.fail_until(2.75)

    (_, message) = mail.outbox
    assert message.to == ["alice@example.com"]
    assert message.subject == f"Webhook {days.webhook.pk} will be disabled"
    assert f"since {days.began_at:%Y-%m-%d %H:%M} UTC; 11 deliveries were given up:" in message.body
    assert "\n    http://127.0.0.1:9000/hook?a=1&b=2\n" in message.body
    assert "It will be disabled on" in message.body


@override_settings(ADMINS=["root@example.com"] if django.VERSION >= (6, 0) else [("Root", "root@example.com")])
def test_the_admins_get_emails_about_the_platforms_webhooks(days):
    Webhook.objects.update(owner=None)

    days.fail_until(6)

    assert [message.to for message in mail.outbox] == [["root@example.com"]] * 3


def test_an_owner_without_an_address_gets_signals_only(days, owner, signals):
    owner.email = ""
    owner.save()

    days.fail_until(6)

    assert mail.outbox == []
    assert len(signals) == 3


@override_settings(WEBHOOKS_HEALTH_MAILS=False)
def test_emails_can_be_turned_off(days):
    days.fail_until(6)

    assert mail.outbox == []


@override_settings(**server(Broken))
def test_a_failure_to_send_an_email_is_only_logged(days, signals, caplog):
    days.fail_until(6)

    assert [name for name, _ in signals] == ["failing", "warning", "disabled"]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == [f"The mail about {days.webhook.pk} could not be sent."] * 3


def refuse(sender, **kwargs):
    raise RuntimeError


def test_no_email_is_sent_after_a_rollback(days):
    for _ in range(12):
        days.give_up()
        days.clock.advance(7200)
    days.clock.advance(86_400 * 6)
    webhook_being_disabled.connect(refuse)

    with pytest.raises(RuntimeError):
        days.look()

    webhook_being_disabled.disconnect(refuse)
    days.send()
    assert mail.outbox == []
    assert WebhookHealth.objects.get().warned_at is None


def test_each_webhook_of_an_owner_has_its_own_emails(days, owner):
    other = Days(make_webhook(owner), days.clock)

    for _ in range(12):
        other.give_up()
        days.fail_until(days.day + 0.25)

    assert sorted(message.subject for message in mail.outbox) == sorted(
        f"Webhook {each.webhook.pk} {text}" for each in (days, other) for text in ("is failing", "will be disabled")
    )


def fail_together(webhooks, clock):
    """Make several webhooks fail until the announcement, without waiting for emails."""
    each = [Days(webhook, clock) for webhook in webhooks]
    for days in each:
        days.give_up()
    each[0].look_only()
    clock.advance(15 * 60)
    each[0].look_only()


def mail_threads():
    return [thread for thread in threading.enumerate() if thread.name == "webhooks_app.mail"]


def test_a_hanging_mail_server_delays_nothing_and_loses_no_email(days, owner, hanging):
    webhooks = [days.webhook, *(make_webhook(owner) for _ in range(3))]

    fail_together(webhooks, days.clock)

    assert WebhookHealth.objects.filter(announced_at__isnull=False).count() == 4
    assert mail.outbox == []
    assert len(mail_threads()) == 1

    hanging.set()
    wait_for_mails(30)
    assert sorted(message.subject for message in mail.outbox) == sorted(
        f"Webhook {webhook.pk} is failing" for webhook in webhooks
    )
    wait_until(lambda: not mail_threads())


def test_the_queue_of_emails_is_limited_and_the_others_stay_due(days, owner, hanging, monkeypatch):
    monkeypatch.setattr(outgoing, "MOST_WAITING", 2)
    webhooks = [days.webhook, *(make_webhook(owner) for _ in range(2))]

    fail_together(webhooks, days.clock)

    assert Announcement.objects.waiting().count() == 1
    hanging.set()
    wait_for_mails(30)
    days.look()
    assert len(mail.outbox) == 3


def test_unsent_emails_are_logged_at_the_end_of_a_process(days, hanging, caplog):
    fail_together([days.webhook], days.clock)

    wait_for_mails(0)

    assert "The mail server did not answer in time. Mails that may be lost: 1." in caplog.messages


class Deliverer:
    in_flight = 0
    transport_name = "memory"


@pytest.mark.django_db(transaction=True)
def test_a_process_waits_for_the_emails_of_its_jobs(webhook, hanging):
    ran = threading.Event()

    def run(using, now, facts):
        send_soon(Mail("recovered", webhook.pk, webhook.owner, {"webhook": webhook, "since": now, "at": now}))
        ran.set()

    maintenance_runner = MaintenanceRunner(Deliverer(), jobs=[Job(name="one", every_seconds=3600, run=run)])
    maintenance_runner.start()
    assert ran.wait(30)
    maintenance_runner.stop()
    wait_until(lambda: not WorkerProcess.objects.exists())

    hanging.set()
    maintenance_runner.join()

    assert [message.to for message in mail.outbox] == [["alice@example.com"]]
