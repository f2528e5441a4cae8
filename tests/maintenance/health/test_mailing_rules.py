"""When announcements are made and mailed: pure rules of times, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from webhooks_app.maintenance.announcements import hidden_end, is_announced_now
from webhooks_app.maintenance.mailing import sent_at, summary_at, worth_telling
from webhooks_app.models import Announcement, ApiKey, Webhook, WebhookHealth

AT = datetime(2026, 3, 5, 10, 0, tzinfo=UTC)
SETTLES = timedelta(minutes=15)


def moment(clock: str) -> datetime:
    """Return a time of the day after 10:00, such as ``10:15``."""
    hours, minutes = map(int, clock.split(":"))
    return AT.replace(hour=0) + timedelta(hours=hours, minutes=minutes)


def told(*parts: str) -> list[Announcement]:
    """Return announcements such as ``failing 10:15``, of the failure since 10:00 unless there is another time."""
    found = []
    for part in parts:
        kind, at, *since = part.split()
        times = {"created_at": moment(at), "since": moment(since[0] if since else "10:00")}
        found.append(Announcement(kind=kind, **times))
    return found


CASES: dict[str, tuple[list[str], str, str, str]] = {
    # what waits, the last mail, since when the webhook is failing, and when the mail is sent
    "first-failure": (["failing 10:15"], "", "10:00", "10:15"),
    "its-end": (["recovered 11:00"], "10:15", "", "16:15"),
    "its-end-waits-for-a-new-failure": (["recovered 16:30"], "10:15", "16:40", "16:55"),
    "second-failure": (["failing 11:30 11:15"], "10:15", "11:15", "16:15"),
    "both": (["recovered 11:00", "failing 11:30 11:15"], "10:15", "11:15", "16:15"),
    "end-after-a-summary": (["recovered 17:00 15:00"], "16:15", "", "22:15"),
    "failure-after-six-hours": (["failing 17:00 16:45"], "10:50", "16:45", "17:00"),
    "late-end": (["recovered 20:00"], "10:15", "", "20:15"),
    "warning": (["warning 11:00"], "10:15", "10:00", "11:00"),
    "disabling-with-what-is-held-back": (["recovered 11:00", "disabled 11:30 11:10"], "10:15", "", "11:30"),
    "verification": (["verification_failed 10:20"], "10:15", "", "10:20"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_mail_is_sent_at_once_or_held_back(case: tuple[list[str], str, str, str]) -> None:
    waiting, last_mail, failing_since, at = case

    mailed_at, since = (moment(clock) if clock else None for clock in (last_mail, failing_since))

    assert sent_at(told(*waiting), mailed_at, failing_since=since, settles=SETTLES) == moment(at)


@pytest.mark.parametrize(
    ("first", "at"),
    [
        pytest.param("2026-03-05T06:59", "2026-03-05T07:00", id="before"),
        pytest.param("2026-03-05T07:00", "2026-03-05T07:00", id="then"),
        pytest.param("2026-03-05T07:01", "2026-03-06T07:00", id="after"),
        pytest.param("2026-03-05T23:30", "2026-03-06T07:00", id="next-day-in-the-zone"),
        pytest.param("2026-03-28T12:00", "2026-03-29T06:00", id="change-to-summer-time"),
    ],
)
def test_a_summary_is_sent_at_eight_in_the_projects_zone(first: str, at: str) -> None:
    found = summary_at(datetime.fromisoformat(f"{first}+00:00"), ZoneInfo("Europe/Berlin"))

    assert found == datetime.fromisoformat(f"{at}+00:00")


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(36, 10), (156, 10), (600, 10), (601, 20), (3600, 60), (0, 10)], ids=str
)
def test_the_time_of_a_mail_does_not_tell_how_long_an_unreachable_url_took(seconds: int, minutes: int) -> None:
    assert hidden_end(AT, AT + timedelta(seconds=seconds)) == AT + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("minutes", "announced", "expected"),
    [(14.9, False, False), (15, False, True), (15, True, False), (None, False, False)],
    ids=["too-early", "due", "announced", "well"],
)
def test_a_failure_is_announced_after_a_quarter_of_an_hour(
    minutes: float | None, announced: bool, expected: bool
) -> None:
    since = None if minutes is None else AT - timedelta(minutes=minutes)
    health = WebhookHealth(failing_since=since, announced_at=AT if announced else None)

    assert is_announced_now(health, AT) is expected


@pytest.mark.parametrize(
    ("fields", "kind", "is_true"),
    [
        pytest.param({"status": "failed", "status_changed_at": AT}, "verification_failed", True, id="failed"),
        pytest.param({"status": "active", "status_changed_at": AT}, "verification_failed", False, id="verified-since"),
        pytest.param({"status": "failed", "status_changed_at": AT}, "unverified", False, id="failed-since"),
        pytest.param({"status": "pending", "status_changed_at": AT}, "unverified", True, id="unverified"),
        pytest.param({"status": "pending", "status_changed_at": AT - SETTLES}, "unverified", False, id="again"),
        pytest.param({"paused_at": AT}, "paused", True, id="paused"),
        pytest.param({"paused_at": None}, "paused", False, id="resumed"),
        pytest.param({"status": "disabled"}, "failing", True, id="past-failure"),
        pytest.param({"deleted_at": AT}, "failing", False, id="deleted"),
    ],
)
def test_only_what_still_holds_is_told(fields: dict[str, Any], kind: str, is_true: bool) -> None:
    announcement = Announcement(webhook=Webhook(**fields), kind=kind, since=AT, created_at=AT)

    assert bool(worth_telling([announcement])) is is_true


@pytest.mark.parametrize(
    ("fields", "is_true"),
    [
        pytest.param({"expires_at": AT}, True, id="valid"),
        pytest.param({"expires_at": AT + SETTLES}, False, id="extended"),
        pytest.param({"expires_at": AT, "revoked_at": AT}, False, id="revoked"),
    ],
)
def test_only_the_expiry_of_a_valid_key_is_told(fields: dict[str, Any], is_true: bool) -> None:
    announcement = Announcement(api_key=ApiKey(**fields), kind="key_expires", since=AT, created_at=AT)

    assert bool(worth_telling([announcement])) is is_true


def test_a_graver_announcement_replaces_the_others_of_the_same_failure() -> None:
    webhook = Webhook()
    made = told("failing 10:15", "warning 12:00", "disabled 13:00", "failing 14:00 13:45")
    for each in made:
        each.webhook = webhook

    assert [(each.kind, each.since) for each in worth_telling(made)] == [("disabled", AT), ("failing", moment("13:45"))]
