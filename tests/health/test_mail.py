"""Mails about webhooks that fail: to whom they go, what they say, and that they can do no harm."""

from __future__ import annotations

import django
import pytest
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.test import override_settings

from webhooks_app.models import Webhook, WebhookHealth
from webhooks_app.signals import webhook_being_disabled

from ..making import make_webhook
from .conftest import Days

pytestmark = pytest.mark.django_db


class Broken(BaseEmailBackend):
    def send_messages(self, email_messages):
        raise OSError("No mail server.")


if django.VERSION >= (6, 1):
    NO_MAIL_SERVER = {"MAILERS": {"default": {"BACKEND": f"{__name__}.Broken"}}}
else:
    NO_MAIL_SERVER = {"EMAIL_BACKEND": f"{__name__}.Broken"}


@pytest.fixture
def webhook(owner):
    return make_webhook(owner, url="http://127.0.0.1:9000/hook?a=1&b=2")


def test_a_mail_says_what_happens_when_and_to_which_webhook(days):
    days.fail_until(2.75)

    (message,) = mail.outbox
    assert message.to == ["alice@example.com"]
    assert message.subject == f"Webhook {days.webhook.pk} is failing"
    assert f"since {days.began_at:%Y-%m-%d %H:%M} UTC; 11 deliveries were given up:" in message.body
    assert "\n    http://127.0.0.1:9000/hook?a=1&b=2\n" in message.body
    assert "Unless a delivery succeeds, it is disabled on" in message.body


@override_settings(ADMINS=["root@example.com"] if django.VERSION >= (6, 0) else [("Root", "root@example.com")])
def test_the_admins_are_told_of_the_platforms_webhooks(days):
    Webhook.objects.update(owner=None)

    days.fail_until(6)

    assert [message.to for message in mail.outbox] == [["root@example.com"]] * 2


def test_who_has_no_address_is_told_otherwise(days, owner, told):
    owner.email = ""
    owner.save()

    days.fail_until(6)

    assert mail.outbox == []
    assert len(told) == 2


@override_settings(WEBHOOKS_HEALTH_MAILS=False)
def test_mails_can_be_turned_off(days):
    days.fail_until(6)

    assert mail.outbox == []


@override_settings(**NO_MAIL_SERVER)
def test_a_mail_that_cannot_be_sent_is_logged_and_changes_nothing(days, told, caplog):
    days.fail_until(6)

    assert [name for name, _ in told] == ["failing", "disabled"]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == [f"The mail about webhook {days.webhook.pk} could not be sent."] * 2


def refuse(sender, **kwargs):
    raise RuntimeError


def test_nothing_is_mailed_of_what_was_rolled_back(days):
    for _ in range(12):
        days.give_up()
        days.clock.advance(7200)
    days.clock.advance(86_400 * 6)
    webhook_being_disabled.connect(refuse)

    with pytest.raises(RuntimeError):
        days.look()

    webhook_being_disabled.disconnect(refuse)
    assert mail.outbox == []
    assert WebhookHealth.objects.get().warned_at is None


def test_another_webhook_of_the_same_owner_has_mails_of_its_own(days, owner):
    other = Days(make_webhook(owner), days.clock)

    for _ in range(12):
        other.give_up()
        days.fail_until(days.day + 0.25)

    assert sorted(message.subject for message in mail.outbox) == sorted(
        f"Webhook {each.webhook.pk} is failing" for each in (days, other)
    )
