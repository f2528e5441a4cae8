"""What owners are told by mail, once each, over time, with a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import django
import pytest
from django.core import mail
from django.test import override_settings
from django.utils import translation

from webhooks_app.database.clock import following
from webhooks_app.maintenance.announcements import (
    KEPT,
    announce_expiry,
    announce_failing,
    announce_stopped,
    forget_announcements,
)
from webhooks_app.maintenance.forgetting import forget
from webhooks_app.maintenance.health import Rule
from webhooks_app.maintenance.notifications import notify_failing
from webhooks_app.models import Announcement, ApiKey, MailPreference, Webhook, WebhookHealth
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.mails import choose_mails
from webhooks_app.reasons import ReasonText

from ...support.rows import emit_one, make_webhook
from ..rollups.conftest import make_tally
from .conftest import Days

pytestmark = pytest.mark.django_db

NOON = datetime(2030, 3, 5, 12, 0, tzinfo=UTC)
ADMINS = ["root@example.com"] if django.VERSION >= (6, 0) else [("Root", "root@example.com")]
UNREACHED = ReasonText("unreachable")
OVER_DAYS = pytest.mark.only_on("sqlite")
"""Hundreds of runs of jobs whose statements the other tests execute on every database."""


@pytest.fixture
def days(days: Days) -> Days:
    days.clock.now = days.began_at = NOON
    return days


def subjects() -> list[str]:
    return [message.subject for message in mail.outbox]


def refused(days: Days, **causes: int) -> None:
    """Record failed requests: numbers by result, or by status such as ``status_500``."""
    counters = {f"refused_{cause.removeprefix('status_')}": number for cause, number in causes.items()}
    make_tally(days.clock(), **{days.webhook.pk: counters})


def pass_minutes(days: Days, minutes: int, *, step: int = 5) -> None:
    """Let time pass, with the jobs in between."""
    for _ in range(minutes // step):
        days.clock.advance(step * 60)
        days.look()


def announced(*kinds: str) -> list[str]:
    return list(Announcement.objects.filter(kind__in=kinds).order_by("created_at").values_list("kind", flat=True))


def test_a_failure_is_announced_once_after_fifteen_minutes_with_cause_remedy_and_numbers(
    days: Days, signals: Any
) -> None:
    refused(days, status_500=40, status_404=2, timeout=3)
    emit_one(days.webhook.owner)
    days.give_up()
    days.look()
    pass_minutes(days, 10)
    assert mail.outbox == []

    pass_minutes(days, 120)

    (message,) = mail.outbox
    assert message.subject == f"Webhook {days.webhook.pk} is failing"
    assert message.to == ["alice@example.com"]
    assert "No request to this webhook has succeeded since 2030-03-05 12:00 UTC:" in message.body
    assert f"\n    {days.webhook.url}\n" in message.body
    assert "The most frequent cause: 500 Internal Server Error." in message.body
    assert "Check that your server answers 200 within 30 seconds." in message.body
    assert "1 event waits to be sent.\n1 delivery was given up." in message.body
    assert "http://testserver" not in message.body
    ((name, facts),) = signals
    assert (name, facts["result"], facts["status_code"], facts["waiting"]) == ("failing", "http_status", 500, 1)
    assert (facts["failed_requests"], facts["given_up"]) == (45, 1)


def test_refused_requests_are_announced_before_anything_is_given_up(days: Days, signals: Any) -> None:
    for _ in range(3):
        refused(days, status_503=1)
        days.look()
        days.clock.advance(60)

    pass_minutes(days, 15)

    assert "The most frequent cause: 503 Service Unavailable." in mail.outbox[0].body
    assert "0 deliveries were given up." in mail.outbox[0].body
    assert signals[0][1]["disables_at"] is None


def test_two_refused_requests_are_not_announced(days: Days) -> None:
    refused(days, status_503=2)

    pass_minutes(days, 60)

    assert mail.outbox == []


@override_settings(WEBHOOKS_FAILING_NOTICE_MINUTES=0)
def test_a_failure_can_be_announced_at_once(days: Days) -> None:
    refused(days, status_503=3)
    days.look()
    assert mail.outbox == []

    days.clock.advance(10)
    days.look()

    assert len(mail.outbox) == 1


@override_settings(WEBHOOKS_FAILING_NOTICE_MINUTES=60)
def test_the_time_until_the_announcement_is_a_setting(days: Days) -> None:
    days.give_up()
    days.look()
    pass_minutes(days, 55)
    assert mail.outbox == []

    pass_minutes(days, 10)

    assert len(mail.outbox) == 1


def test_the_remedy_names_the_accepted_statuses_and_the_timeout(days: Days, settings: Any) -> None:
    settings.WEBHOOKS_TIMEOUT_SECONDS = 10
    Webhook.objects.update(accepted_statuses="2xx")
    days.give_up()
    days.look()

    pass_minutes(days, 15)

    assert "Check that your server answers with a 2xx status within 10 seconds." in mail.outbox[0].body


def test_a_recovery_is_told_once_it_has_lasted_for_fifteen_minutes(days: Days, signals: Any) -> None:
    days.give_up()
    days.look()
    pass_minutes(days, 60)
    days.succeed()
    days.look()
    assert [name for name, _ in signals] == ["failing", "recovered"]
    pass_minutes(days, 60)
    assert len(mail.outbox) == 1

    pass_minutes(days, 260, step=20)

    assert subjects()[1:] == [f"Webhook {days.webhook.pk} works again"]
    assert "at 2030-03-05 13:00 UTC. It had been failing since 2030-03-05 12:00 UTC:" in mail.outbox[1].body
    assert "1 delivery was given up in the meantime. It is not sent again automatically." in mail.outbox[1].body


@OVER_DAYS
def test_a_flapping_receiver_causes_one_mail_in_six_hours_that_sums_up(days: Days, signals: Any) -> None:
    times: list[datetime] = []
    for _ in range(36):  # a day of 20 minutes each
        days.give_up()
        days.look()
        pass_minutes(days, 20)
        days.succeed()
        days.look()
        pass_minutes(days, 20)
        times += [days.clock()] * (len(mail.outbox) - len(times))

    assert [name for name, _ in signals] == ["failing", "recovered"] * 36
    webhook = days.webhook.pk
    assert subjects() == [f"Webhook {webhook} is failing", *[f"Summary of webhook {webhook}"] * 3]
    assert all(later - earlier >= timedelta(hours=6) for earlier, later in pairwise(times))
    assert mail.outbox[1].body.count("It works again. 1 delivery was given up.") >= 8
    assert mail.outbox[1].body.count("Failing since 2030-03-05") >= 8


def test_a_success_in_between_is_not_told_as_a_recovery(days: Days) -> None:
    days.give_up()
    days.look()
    pass_minutes(days, 30)
    days.succeed()
    days.look()
    pass_minutes(days, 5)
    days.give_up()
    days.look()

    pass_minutes(days, 300)

    assert subjects() == [f"Webhook {days.webhook.pk} is failing"]
    pass_minutes(days, 60)
    assert subjects()[1:] == [f"Summary of webhook {days.webhook.pk}"]


def test_the_cause_is_hidden_where_the_owner_may_not_know_it(days: Days) -> None:
    Webhook.objects.update(status="pending")
    days.webhook.refresh_from_db()
    health = WebhookHealth(webhook=days.webhook, failing_since=NOON, refused={"address_refused": 3})

    notify_failing(days.webhook, health, Rule.configured(), NOON, is_warning=False)
    days.look()

    assert "The most frequent cause: The URL could not be reached." in mail.outbox[0].body
    assert "address refused" not in mail.outbox[0].body


def test_paused_and_stopped_webhooks_are_not_announced_as_failing(days: Days, owner: Any) -> None:
    disabled = make_webhook(owner, status="disabled")
    for webhook in (days.webhook, disabled):
        WebhookHealth.objects.create(webhook=webhook, failing_since=NOON, given_up_since=NOON, given_up_count=1)
    days.webhook.pause()

    pass_minutes(days, 30)

    assert mail.outbox == []


def test_a_thousand_failures_are_announced_in_bounded_runs(
    days: Days, owner: Any, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.maintenance.announcements.AT_A_TIME", 5)
    monkeypatch.setattr("webhooks_app.maintenance.announcements.ANNOUNCING_SECONDS", 60)
    webhooks = [make_webhook(owner) for _ in range(12)]
    WebhookHealth.objects.bulk_create(WebhookHealth(webhook=webhook, failing_since=NOON) for webhook in webhooks)
    now = NOON + timedelta(hours=1)

    with django_assert_max_num_queries(60):
        assert announce_failing("default", now)
    assert announce_failing("default", now)
    assert not announce_failing("default", now)

    assert announced("failing") == ["failing"] * 12


# What waits for a person


def stop(webhook: Webhook, status: str, at: datetime, reason: str = "") -> None:
    Webhook.objects.filter(pk=webhook.pk).update(status=status, status_changed_at=at, status_reason=reason)


@pytest.mark.parametrize(
    ("age", "found"),
    [(timedelta(minutes=1), 1), (timedelta(days=6), 1), (timedelta(days=8), 0)],
    ids=["just-now", "found-late", "too-old"],
)
def test_a_failed_verification_is_told_once(days: Days, age: timedelta, found: int) -> None:
    stop(days.webhook, "failed", NOON - age, ReasonText("status_not_200", status="404"))

    pass_minutes(days, 30)

    assert subjects() == [f"The verification of webhook {days.webhook.pk} failed"] * found
    if found:
        assert "Answered with status 404. Only status 200 confirms receipt." in mail.outbox[0].body


def test_another_failed_verification_is_told_again(days: Days) -> None:
    stop(days.webhook, "failed", NOON - timedelta(minutes=1))
    pass_minutes(days, 10)
    stop(days.webhook, "failed", days.clock())

    pass_minutes(days, 10)

    assert len(mail.outbox) == 2


def test_the_mail_about_an_unreachable_url_comes_ten_minutes_after_the_beginning(days: Days) -> None:
    Webhook.objects.update(created_at=NOON)
    stop(days.webhook, "failed", NOON + timedelta(seconds=36), UNREACHED)
    choose_mails(days.webhook.owner, "daily", actor=PROJECT)
    choose_mails(days.webhook.owner, "at_once", actor=PROJECT)

    pass_minutes(days, 8, step=2)
    assert mail.outbox == []
    pass_minutes(days, 2, step=2)

    assert len(mail.outbox) == 1
    assert "The URL could not be reached." in mail.outbox[0].body


@pytest.mark.parametrize(
    ("reason", "minutes"),
    [(ReasonText("status_not_200", status="404"), 2), (UNREACHED, 10)],
    ids=["answered", "unreachable"],
)
def test_a_new_url_that_failed_its_verification_is_told(days: Days, reason: str, minutes: int) -> None:
    days.webhook.pending_url = "https://new.example.com/hook"
    with following(days.clock), django.test.TestCase.captureOnCommitCallbacks(execute=True):
        days.webhook.keep_url(reason)

    pass_minutes(days, minutes - 2, step=2)
    assert mail.outbox == []
    pass_minutes(days, 2, step=2)

    (message,) = mail.outbox
    assert message.subject == f"The verification of webhook {days.webhook.pk} failed"
    assert "https://new.example.com/hook" in message.body
    assert f"Events are still sent to the present URL:\n\n    {days.webhook.url}\n" in message.body


def test_a_verification_that_passed_before_the_mail_is_not_told(days: Days) -> None:
    Webhook.objects.update(created_at=NOON)
    stop(days.webhook, "failed", NOON, UNREACHED)
    days.look()
    stop(days.webhook, "active", NOON + timedelta(minutes=5))

    pass_minutes(days, 30)

    assert mail.outbox == []


@pytest.mark.parametrize(("hours", "found"), [(23, 0), (24, 1), (24 * 7, 1)], ids=["early", "a-day", "late"])
def test_a_webhook_that_stays_unverified_is_told_once_after_a_day(days: Days, hours: int, found: int) -> None:
    stop(days.webhook, "pending", NOON - timedelta(hours=hours, minutes=-1 if hours == 24 * 7 else 5))

    pass_minutes(days, 30)

    assert subjects() == [f"Webhook {days.webhook.pk} is not verified yet"] * found


@pytest.mark.parametrize(
    ("age_days", "waits", "found"), [(6, True, 0), (7, True, 1), (7, False, 0), (40, True, 1)], ids=str
)
def test_a_long_pause_with_events_waiting_is_told_once(days: Days, age_days: int, waits: bool, found: int) -> None:
    Webhook.objects.update(paused_at=NOON - timedelta(days=age_days))
    if waits:
        emit_one(days.webhook.owner)

    pass_minutes(days, 30)

    assert subjects() == [f"Webhook {days.webhook.pk} is still paused"] * found
    if found:
        assert "1 event waits to be sent. Resume the webhook to send them" in mail.outbox[0].body


def test_events_that_come_later_in_a_pause_are_told_too(days: Days) -> None:
    Webhook.objects.update(paused_at=NOON - timedelta(days=10))
    pass_minutes(days, 10)
    emit_one(days.webhook.owner)

    pass_minutes(days, 10)

    assert len(mail.outbox) == 1


# Keys


def make_key(owner: Any, *, days: float, age: float = 90, **fields: Any) -> ApiKey:
    key, _ = ApiKey.objects.make(owner=owner, name="Import", **fields)
    times = {"created_at": NOON - timedelta(days=age), "expires_at": NOON + timedelta(days=days)}
    ApiKey.objects.filter(pk=key.pk).update(**times)
    return key


@pytest.mark.parametrize(
    ("days_left", "age", "kinds"),
    [
        pytest.param(15, 90, [], id="15-days"),
        pytest.param(14, 90, ["key_expires"], id="14-days"),
        pytest.param(4, 90, ["key_expires"], id="4-days"),
        pytest.param(3, 90, ["key_expires_soon"], id="3-days"),
        pytest.param(0.1, 90, ["key_expires_soon"], id="hours"),
        pytest.param(0, 90, [], id="expired"),
        pytest.param(4, 1, [], id="made-for-5-days"),
        pytest.param(2, 5, ["key_expires_soon"], id="made-for-7-days"),
        pytest.param(2, 0.5, [], id="made-for-2.5-days"),
    ],
)
def test_the_stage_of_an_expiring_key(owner: Any, days_left: float, age: float, kinds: list[str]) -> None:
    make_key(owner, days=days_left, age=age)

    for _ in range(2):
        announce_expiry("default", NOON)

    assert announced("key_expires", "key_expires_soon") == kinds


def test_the_owner_and_the_creator_are_told_twice_that_a_key_expires(
    days: Days, owner: Any, django_user_model: Any
) -> None:
    creator = django_user_model.objects.create_user("carl", email="carl@example.com")
    key = make_key(owner, days=14, created_by=creator)

    for _ in range(15):
        announce_expiry("default", days.clock())
        days.look()
        days.clock.advance(86_400)

    assert sorted(message.to[0] for message in mail.outbox) == ["alice@example.com"] * 2 + ["carl@example.com"] * 2
    assert set(subjects()) == {"An API key expires on 2030-03-19"}
    assert f"\n    whk_{key.prefix}_… Import\n" in mail.outbox[0].body
    assert "This API key expires on 2030-03-19 12:00 UTC." in mail.outbox[0].body


@override_settings(ADMINS=ADMINS)
def test_the_admins_are_told_about_a_service_key(days: Days) -> None:
    make_key(None, days=2, scopes=["events:emit"])

    announce_expiry("default", NOON)
    days.look()

    assert [message.to for message in mail.outbox] == [["root@example.com"]]


@pytest.mark.parametrize(
    "change", [{"revoked_at": NOON}, {"expires_at": NOON + timedelta(days=90)}], ids=["revoked", "extended"]
)
def test_a_key_that_was_changed_meanwhile_is_not_told(days: Days, owner: Any, change: dict[str, Any]) -> None:
    make_key(owner, days=2)
    announce_expiry("default", NOON)
    ApiKey.objects.update(**change)

    days.look()

    assert mail.outbox == []


# The choice of the owner


@OVER_DAYS
def test_a_daily_summary_tells_everything_about_an_owner_at_eight(days: Days, owner: Any, settings: Any) -> None:
    settings.TIME_ZONE = "UTC"
    choose_mails(owner, "daily", actor=PROJECT)
    other = make_webhook(owner, url="http://127.0.0.1:9000/other")
    stop(other, "failed", NOON - timedelta(minutes=1), ReasonText("status_not_200", status="404"))
    days.give_up()
    days.look()
    pass_minutes(days, 60)
    days.succeed()
    days.look()
    days.clock.now = NOON.replace(day=6, hour=7, minute=50)
    days.look()
    assert mail.outbox == []

    pass_minutes(days, 24 * 60, step=10)

    (message,) = mail.outbox
    assert message.subject == "Summary of your webhooks"
    assert f"{days.webhook.url} ({days.webhook.pk})" in message.body
    assert "- 2030-03-05 12:15 Failing since 2030-03-05 12:00." in message.body
    assert "- 2030-03-05 13:00 It works again. 1 delivery was given up." in message.body
    assert f"{other.url} ({other.pk})" in message.body
    assert "Its verification failed. Answered with status 404." in message.body


def test_an_owner_who_wants_no_mails_gets_none_and_the_signals_are_sent(days: Days, owner: Any, signals: Any) -> None:
    choose_mails(owner, "none", actor=PROJECT)
    make_key(owner, days=2)
    announce_expiry("default", NOON)

    days.fail_until(6)

    assert mail.outbox == []
    assert [name for name, _ in signals] == ["failing", "warning", "disabled"]
    assert not Announcement.objects.waiting().exists()


def test_the_expiry_of_a_key_is_told_at_once_to_an_owner_with_summaries(days: Days, owner: Any) -> None:
    choose_mails(owner, "daily", actor=PROJECT)
    make_key(owner, days=2)

    announce_expiry("default", NOON)
    days.look()

    assert len(mail.outbox) == 1


def test_another_choice_applies_to_what_waits(days: Days, owner: Any, settings: Any) -> None:
    choose_mails(owner, "daily", actor=PROJECT)
    days.give_up()
    days.look()
    pass_minutes(days, 30)
    assert mail.outbox == []

    with following(days.clock):
        choose_mails(owner, "at_once", actor=PROJECT)
    days.look()

    assert subjects() == [f"Webhook {days.webhook.pk} is failing"]


def test_the_choice_of_one_owner_does_not_concern_another(days: Days, django_user_model: Any) -> None:
    choose_mails(django_user_model.objects.create_user("bob"), "none", actor=PROJECT)
    days.give_up()
    days.look()

    pass_minutes(days, 15)

    assert len(mail.outbox) == 1


def test_a_forgotten_owner_leaves_no_announcement_and_no_choice(days: Days, owner: Any) -> None:
    choose_mails(owner, "none", actor=PROJECT)
    make_key(owner, days=2)
    announce_expiry("default", NOON)
    stop(days.webhook, "failed", NOON)
    announce_stopped("default", NOON)

    forget("default", owner.pk)

    assert not Announcement.objects.exists()
    assert not MailPreference.objects.exists()


def test_an_announcement_whose_webhook_is_gone_is_deleted(days: Days) -> None:
    stop(days.webhook, "failed", NOON)
    announce_stopped("default", NOON)
    made = Announcement.objects.get()
    days.webhook.delete()
    made.save(force_insert=True)

    days.send()

    assert not Announcement.objects.exists()
    assert mail.outbox == []


# Links and language


@pytest.fixture
def _site(settings: Any) -> None:
    settings.WEBHOOKS_SITE_URL = "https://app.example.com/"


@pytest.mark.usefixtures("_site")
def test_a_mail_links_to_the_customers_pages(days: Days, owner: Any) -> None:
    days.give_up()
    days.look()

    pass_minutes(days, 15)

    url = f"https://app.example.com/webhooks/{owner.pk}"
    assert f"Details:\n    {url}/webhooks/{days.webhook.pk}/\n" in mail.outbox[0].body
    assert f"\n    {url}/mails/\n" in mail.outbox[0].body


@pytest.mark.usefixtures("_site")
@override_settings(ADMINS=ADMINS)
def test_a_mail_to_the_admins_links_to_the_console(days: Days) -> None:
    Webhook.objects.update(owner=None)
    days.give_up()
    days.look()

    pass_minutes(days, 15)

    assert f"https://app.example.com/admin/webhooks_app/webhook/{days.webhook.pk}/change/" in mail.outbox[0].body
    assert "/mails/" not in mail.outbox[0].body


@pytest.mark.usefixtures("_site")
@override_settings(ROOT_URLCONF="tests.maintenance.health.no_urls")
def test_a_host_without_these_pages_gets_mails_without_links(days: Days) -> None:
    days.give_up()
    days.look()

    pass_minutes(days, 15)

    assert "Details" not in mail.outbox[0].body


def test_mails_are_in_the_language_of_the_project(days: Days, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    days.give_up()
    days.look()

    with translation.override("de"):
        pass_minutes(days, 15)

    assert subjects() == [f"Zustellungen an Webhook {days.webhook.pk} scheitern"]


# Their end


@pytest.mark.parametrize(
    ("make", "is_kept"),
    [
        pytest.param(lambda webhook: stop(webhook, "failed", NOON), False, id="verification"),
        pytest.param(
            lambda webhook: Webhook.objects.filter(pk=webhook.pk).update(paused_at=NOON - timedelta(days=8)),
            True,
            id="lasting-pause",
        ),
    ],
)
def test_old_announcements_are_forgotten_unless_they_prevent_another(
    days: Days, make: Callable[[Webhook], None], is_kept: bool
) -> None:
    emit_one(days.webhook.owner)
    make(days.webhook)
    pass_minutes(days, 10)
    assert len(mail.outbox) == 1

    forget_announcements("default", NOON + KEPT - timedelta(minutes=10))
    assert Announcement.objects.count() == 1
    days.clock.now = NOON + KEPT + timedelta(days=1)
    forget_announcements("default", days.clock())

    assert Announcement.objects.exists() is is_kept
    days.look()
    assert len(mail.outbox) == 1
