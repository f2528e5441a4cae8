"""The page of receivers: order, filters, permissions and number of queries."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from tests.support.reading import breadcrumbs, cells
from webhooks_app.admin import receiver_order
from webhooks_app.admin import receivers as receivers_page
from webhooks_app.admin.receiver_order import COLUMNS
from webhooks_app.admin.receivers import WEBHOOKS_PER_PAGE
from webhooks_app.emission import emit
from webhooks_app.maintenance.jobs import WEBHOOKS_AT_A_TIME
from webhooks_app.maintenance.rollups.folding import TalliedWebhook, add_to_rollups, add_up, changing, start_of
from webhooks_app.maintenance.rollups.reading import Counters
from webhooks_app.maintenance.rollups.recent import figures, pack
from webhooks_app.models import AuditEntry, MaintenanceJob, RecentResults, Rollup, Webhook, WebhookHealth
from webhooks_app.models.standing import Standing
from webhooks_app.pages.display import moment, percent
from webhooks_app.protocol.json_data import format_time
from webhooks_app.reasons import ReasonText

from ..support.plans import rows_read, update_statistics
from ..support.rows import URL
from .conftest import DATA, Page, shows, text
from .test_content_security import InlineParts

NOW = timezone.now()


@pytest.fixture
def new_receiver(new_webhook: Callable[..., Webhook]) -> Callable[..., Webhook]:
    """Create a webhook with these results in the last 24 hours."""

    def new_receiver(
        owner: Any = None, *, given_up: int = 0, succeeded: int = 0, ms: str = "ms_100", queued: int = 0, **fields: Any
    ) -> Webhook:
        since = fields.pop("failing_since", None)
        webhook = new_webhook(owner, **fields)
        counters = {"succeeded_at_once": succeeded, "given_up": given_up, "failed_timeout": given_up, ms: succeeded}
        recent = {"day": figures(Counters(counters)), **({"queued": queued} if queued else {})}
        WebhookHealth.objects.create(webhook=webhook, recent=recent, failing_since=since, given_up_since=since)
        pack("default", RecentResults.objects.count(), [webhook.pk], {webhook.pk: recent})
        return webhook

    return new_receiver


def receivers(page: Page, **query: str) -> Any:
    return page.get("receivers", **query)


def listed(page: Page, **query: str) -> list[str]:
    answer = receivers(page, **query)
    assert answer.status_code == 200
    return [row.webhook.pk for row in answer.context["rows"]]


def test_the_worst_are_first(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    large = new_receiver(given_up=28, succeeded=1721)
    few = new_receiver(given_up=1)
    all_failed = new_receiver(given_up=25)
    well = new_receiver(succeeded=5000)

    assert listed(superuser) == [all_failed.pk, large.pk, well.pk, few.pk]


def test_a_webhook_with_few_deliveries_counts_after_five_minutes(
    superuser: Page, new_receiver: Callable[..., Webhook]
) -> None:
    now = timezone.now()
    large = new_receiver(given_up=28, succeeded=1721)
    just_now = new_receiver(given_up=3, failing_since=now - timedelta(minutes=4))
    longer = new_receiver(given_up=3, failing_since=now - timedelta(minutes=6))

    assert listed(superuser) == [longer.pk, large.pk, just_now.pk]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_sorts_in_both_directions(superuser: Page, new_receiver: Callable[..., Webhook], name: str) -> None:
    owners = [get_user_model().objects.create_user(name) for name in ("amina", "berta")]
    low = new_receiver(owners[0], succeeded=20, given_up=1, queued=1, failing_since=timezone.now() - timedelta(days=2))
    high = new_receiver(owners[1], succeeded=30, given_up=9, ms="ms_500", queued=10, failing_since=timezone.now())
    high.disable("Not needed.")
    none = new_receiver()
    Webhook.objects.filter(pk=none.pk).update(status="failed")

    up, down = listed(superuser, sort=name), listed(superuser, sort=f"-{name}")

    assert [pk for pk in up if pk != none.pk] == [low.pk, high.pk]
    assert [pk for pk in down if pk != none.pk] == [high.pk, low.pk]
    if name not in ("state", "volume", "lost"):
        assert up[-1] == down[-1] == none.pk


def test_the_figures_are_those_of_the_chosen_period(superuser: Page, webhook: Webhook) -> None:
    hour, day = (
        {"succeeded_at_once": number, "given_up": 1, "failed_timeout": 1, "ms_100": number} for number in (9, 999)
    )
    recent = {"hour": figures(Counters(hour)), "day": figures(Counters(day))}
    WebhookHealth.objects.create(webhook=webhook, recent=recent)

    (of_hour,) = receivers(superuser, window="hour").context["rows"]
    (of_day,) = receivers(superuser).context["rows"]
    (of_week,) = receivers(superuser, window="week").context["rows"]

    assert (of_hour.error_rate, of_hour.finished, of_hour.p50_ms, of_hour.p95_ms) == ("10%", 10, 75, 98)
    assert (of_day.error_rate, of_day.finished, of_week.error_rate, of_week.finished) == ("0.1%", 1000, "", 0)


MIDNIGHT = start_of("day", NOW) - timedelta(days=3)


@pytest.fixture
def results_at(new_webhook: Callable[..., Webhook]) -> Callable[..., Webhook]:
    """Create a webhook with results at a time of the past: at this hour, and hence in this day."""

    def results_at(at: datetime, webhook: Webhook | None = None, **counters: int) -> Webhook:
        webhook = webhook or new_webhook(None)
        sums = add_up([TalliedWebhook(webhook.pk, at, counters, 0)], {})
        with changing("default"):
            add_to_rollups("default", {key: found for key, found in sums.items() if key[0] == webhook.pk})
        return webhook

    return results_at


def between(since: datetime, until: datetime) -> dict[str, str]:
    limits = {"seen_after": since, "seen_before": until}
    return {name: f"{timezone.localtime(at):%Y-%m-%dT%H:%M:%S}" for name, at in limits.items()}


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("-1 h", "0 h", {}),
        ("10 h", "11 h", {"at night": 2}),
        ("10 h", "24 h", {"at night": 2, "at noon": 3}),
        ("0 h", "24 h", {"at night": 2, "at noon": 3}),
        ("11 h", "36 h", {"at noon": 3, "next day": 5}),
        ("-48 h", "48 h", {"at night": 2, "at noon": 3, "next day": 5}),
        ("-480 h", "1 h", {"at night": 2, "at noon": 3}),
    ],
)
def test_any_interval_can_be_entered(
    superuser: Page, results_at: Callable[..., Webhook], since: str, until: str, expected: dict[str, int]
) -> None:
    """An hour with a part in the interval counts; of more than seven days, each such day of UTC."""
    at = {"at night": 10, "at noon": 12, "next day": 30}
    numbers = {"at night": 2, "at noon": 3, "next day": 5}
    names = {results_at(MIDNIGHT + timedelta(hours=at[name]), given_up=numbers[name]).pk: name for name in at}
    limits = between(*(MIDNIGHT + timedelta(hours=int(text.split()[0])) for text in (since, until)))

    rows = receivers(superuser, **limits, sort="-lost").context["rows"]

    assert {names[row.webhook.pk]: row.given_up for row in rows if row.given_up} == expected
    given_up = [row.given_up for row in rows]
    assert given_up == sorted(given_up, reverse=True)


def test_the_worst_of_an_interval_are_first(superuser: Page, results_at: Callable[..., Webhook]) -> None:
    few = results_at(MIDNIGHT, succeeded_at_once=95, given_up=5, failed_timeout=5)
    many = results_at(MIDNIGHT, succeeded_at_once=50, failed_http_status=50)
    none = results_at(MIDNIGHT, succeeded_at_once=100)

    assert listed(superuser, **between(MIDNIGHT, MIDNIGHT + timedelta(hours=1))) == [many.pk, few.pk, none.pk]


def test_the_page_says_what_it_counted(superuser: Page, results_at: Callable[..., Webhook]) -> None:
    webhook = results_at(MIDNIGHT, succeeded_at_once=1)
    since, until = MIDNIGHT + timedelta(minutes=5), MIDNIGHT + timedelta(minutes=65)
    page = receivers(superuser, **between(since, until))

    start, end = (moment(MIDNIGHT + timedelta(hours=hours)) for hours in (0, 2))
    assert shows(page, webhook.url)
    assert f"Counted from {start} to {end}." in text(page)
    assert not shows(receivers(superuser), "Counted from")


@pytest.mark.parametrize(
    ("since", "until", "error"),
    [
        ("2026-01-02T00:00:00", "2026-01-01T00:00:00", "The end of the period must be later than its beginning."),
        ("2026-01-02T00:00:00", "2026-04-05T00:00:00", "Enter a period of at most 92 days."),
    ],
)
def test_an_interval_that_is_not_allowed_gets_an_error(
    superuser: Page, webhook: Webhook, since: str, until: str, error: str
) -> None:
    page = receivers(superuser, seen_after=since, seen_before=until)

    assert shows(page, error)
    assert page.context["rows"] == []


def test_an_interval_is_exported(superuser: Page, results_at: Callable[..., Webhook]) -> None:
    results_at(MIDNIGHT, given_up=4)
    query = between(MIDNIGHT, MIDNIGHT + timedelta(hours=1))

    (row,) = exported(superuser, urlencode(query))

    assert (row["given_up"], row["period"]) == (
        4,
        f"{format_time(MIDNIGHT)}/{format_time(MIDNIGHT + timedelta(hours=1))}",
    )


def test_of_many_webhooks_those_that_lost_events_in_the_interval_are_compared(
    superuser: Page, results_at: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_order, "MAX_COMPARED", 1)
    lost = results_at(MIDNIGHT, given_up=4)
    others = [results_at(MIDNIGHT, succeeded_at_once=number) for number in (3, 7, 5)]

    page = receivers(superuser, sort="-lost", **between(MIDNIGHT, MIDNIGHT + timedelta(hours=1)))

    assert [row.webhook.pk for row in page.context["rows"]] == [lost.pk, *(each.pk for each in reversed(others))]
    assert [row.finished for row in page.context["rows"]] == [4, 5, 7, 3]
    assert shows(page, "In this period, the results of 1 webhooks are compared")


def test_the_queue_is_counted_now_unless_it_is_too_long(
    superuser: Page, new_receiver: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = new_receiver(superuser.user, queued=7)
    emit("file.deleted", DATA, owner=webhook.owner)

    (counted,) = receivers(superuser).context["rows"]
    monkeypatch.setattr("webhooks_app.admin.receivers.MAX_QUEUED", 0)
    (summed_up,) = receivers(superuser).context["rows"]

    assert (counted.queued, summed_up.queued) == (1, 7)


def test_the_state_has_its_reason(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    failing, disabled = new_receiver(failing_since=timezone.now()), new_receiver()
    disabled.disable("Under repair.")

    answer = receivers(superuser, sort="state")

    assert [row.webhook.pk for row in answer.context["rows"]] == [failing.pk, disabled.pk]
    assert cells(text(answer), "State") == ["Failing", "Disabled Under repair."]


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(0, 5, "0%"), (5, 5, "100%"), (1, 5000, "0.1%"), (4999, 5000, "99.9%"), (1, 8, "12.5%"), (1, 4, "25%")],
)
def test_a_rate_of_0_means_none_and_of_100_all(part: int, whole: int, expected: str) -> None:
    assert percent(part, whole) == expected


def test_the_state_is_a_filter(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    failing = new_receiver(failing_since=timezone.now())
    paused, disabled, well = new_receiver(), new_receiver(), new_receiver()
    paused.pause()
    disabled.disable("Not needed.")

    assert listed(superuser, state="failing") == [failing.pk]
    assert listed(superuser, state="paused") == [paused.pk]
    assert listed(superuser, state="disabled") == [disabled.pk]
    assert listed(superuser, state="unused") == [well.pk]
    assert listed(superuser, state="nonsense") == []


def test_the_owner_is_a_filter(superuser: Page, owner: Any, new_receiver: Callable[..., Webhook]) -> None:
    hers = new_receiver(owner)
    new_receiver()

    assert listed(superuser, owner="amina") == [hers.pk]
    assert shows(receivers(superuser, owner="nobody"), "Nothing to show.")


def test_pages_keep_the_sort_and_the_filters(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    for number in range(WEBHOOKS_PER_PAGE + 2):
        new_receiver(succeeded=number + 1)

    first = receivers(superuser, sort="volume", state="unused")
    second = superuser.client.get(f"{first.request['PATH_INFO']}?{first.context['next']}")

    assert [row.finished for row in second.context["rows"]] == [WEBHOOKS_PER_PAGE + 1, WEBHOOKS_PER_PAGE + 2]
    assert (first.context["previous"], second.context["next"]) == ("", "")
    assert "sort=volume" in second.context["previous"]
    assert "state=unused" in second.context["previous"]


@pytest.mark.parametrize("query", [{"sort": "url"}, {"window": "month"}, {"p": "-1"}, {"p": "x"}, {"p": "²"}])
def test_an_unknown_value_is_ignored(superuser: Page, webhook: Webhook, query: dict[str, str]) -> None:
    assert listed(superuser, **query) == [webhook.pk]


def test_the_number_of_a_page_may_have_any_length(superuser: Page, webhook: Webhook) -> None:
    assert listed(superuser, p="9" * 5000) == []


def test_other_staff_see_their_own_webhooks(
    staff: Callable[..., Page], new_receiver: Callable[..., Webhook], webhook: Webhook
) -> None:
    page = staff("boris", "view_webhook", "view_delivery")
    own = new_receiver(page.user, given_up=3)

    answer = receivers(page)

    assert [row.webhook.pk for row in answer.context["rows"]] == [own.pk]
    assert "boris" not in text(answer).partition('id="content-main"')[2]
    assert listed(page, owner="amina") == [own.pk]


@pytest.mark.parametrize("codename", ["view_webhook", "view_delivery"])
def test_the_page_needs_permission_to_view_webhooks_and_deliveries(staff: Callable[..., Page], codename: str) -> None:
    page = staff("boris", codename)
    link = reverse("admin:webhooks_app_receivers_changelist")

    assert receivers(page).status_code == 403
    assert link not in text(page.client.get(reverse("admin:app_list", args=["webhooks_app"])))


def test_the_overview_and_the_list_of_webhooks_have_a_link(superuser: Page) -> None:
    link = reverse("admin:webhooks_app_receivers_changelist")

    assert link in text(superuser.client.get(reverse("admin:app_list", args=["webhooks_app"])))
    assert link in text(superuser.get("webhook"))


def test_an_empty_page_says_so(superuser: Page) -> None:
    answer = receivers(superuser)

    assert shows(answer, "No webhooks yet.")
    assert shows(answer, "Nothing has been summed up yet.")


def test_the_time_of_the_figures_is_shown(superuser: Page, webhook: Webhook) -> None:
    MaintenanceJob.objects.create(name="recent", facts={"as_of": "2026-03-05T14:30:20.000Z"})

    assert shows(receivers(superuser), "2026-03-05 14:30:20")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param({}, "The time of the figures is unknown.", id="not run"),
        pytest.param({"round": "2026-03-05T14:30:20.000Z"}, "Being summed up for the first time", id="first round"),
    ],
)
def test_without_a_complete_round_the_page_says_so(
    superuser: Page, webhook: Webhook, facts: dict[str, str], words: str
) -> None:
    MaintenanceJob.objects.create(name="recent", facts=facts)

    assert shows(receivers(superuser), words)


def test_the_number_of_queries_does_not_grow(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    def asked(**query: str) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            receivers(superuser, **query)
        return [each["sql"] for each in queries]

    new_receiver(superuser.user, given_up=1)
    few = asked()
    for number in range(30):
        owner = get_user_model().objects.create_user(f"owner {number}")
        new_receiver(owner, given_up=number)

    assert len(asked()) == len(few) <= 10
    assert len(asked(owner="owner 3", state="unused", sort="p95")) <= 13
    assert not any('"webhooks_app_delivery"' in sql for sql in asked())


def test_webhooks_that_are_new_or_deleted_since_the_figures_are_up_to_date(
    superuser: Page, new_receiver: Callable[..., Webhook], new_webhook: Callable[..., Webhook]
) -> None:
    deleted, kept = new_receiver(given_up=20), new_receiver(given_up=10)
    Webhook.objects.filter(pk=deleted.pk).update(deleted_at=NOW)
    new = new_webhook(None)

    for sort in ("-errors", "failing", "queued", "state", "owner"):
        assert set(listed(superuser, sort=sort)) == {kept.pk, new.pk}
    assert set(listed(superuser, state="unused")) == {kept.pk, new.pk}


@pytest.mark.parametrize("sort", ["-errors", "state", "-owner"])
def test_many_are_examined_some_at_a_time(
    superuser: Page, new_receiver: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch, sort: str
) -> None:
    made = [new_receiver(superuser.user, given_up=10, failing_since=NOW - timedelta(hours=1)) for _ in range(9)]
    monkeypatch.setattr(receiver_order, "MAX_CHOSEN", 2)
    monkeypatch.setattr(receiver_order, "MAX_FAILING", 2)
    monkeypatch.setattr(receiver_order, "EXAMINED", 2)

    for query in ({}, {"state": "failing"}, {"owner": "root"}):
        assert set(listed(superuser, sort=sort, **query)) == {webhook.pk for webhook in made}


def test_a_page_of_many_is_continued_by_a_link(
    superuser: Page, new_receiver: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [new_receiver(succeeded=20 + number) for number in range(5)]
    for each in made[:4]:
        each.pause()
    monkeypatch.setattr(receiver_order, "MAX_WEBHOOKS_EXAMINED", 3)
    monkeypatch.setattr(receiver_order, "EXAMINED", 2)

    first = receivers(superuser, state="unused", sort="volume")
    second = superuser.client.get(f"{first.request['PATH_INFO']}?{first.context['further']}")

    for words in ("Only 3 webhooks were searched, in this order.", "Search further", "Nothing to show."):
        assert shows(first, words)
    assert [row.webhook.pk for row in second.context["rows"]] == [made[4].pk]
    assert not shows(second, "Search further")
    assert len(exported(superuser, "state=unused&sort=volume")) == 1


def test_an_order_that_does_not_know_all_failing_webhooks_says_so(
    superuser: Page, new_receiver: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    longest, long, short = (new_receiver(failing_since=NOW - timedelta(hours=hours)) for hours in (3, 2, 1))
    monkeypatch.setattr(receiver_order, "MAX_FAILING", 2)
    words = "This order knows the 2 webhooks that have been failing longest."

    assert listed(superuser, sort="failing") == [longest.pk, long.pk, short.pk]
    assert listed(superuser, sort="-failing") == [long.pk, longest.pk, short.pk]
    assert shows(receivers(superuser, sort="-failing"), words)
    assert not shows(receivers(superuser, sort="queued"), words)


@pytest.fixture
def crowd(superuser: Page) -> None:
    """10,000 webhooks of 1,000 accounts, of which some fail, are paused, disabled, not verified or unused."""
    users = get_user_model()
    owners = users.objects.bulk_create(users(username=f"owner {number}") for number in range(1000))
    status = {0: {"status": "disabled"}, 1: {"status": "failed"}, 2: {"status": "pending"}, 3: {"paused_at": NOW}}
    made = Webhook.objects.bulk_create(
        [
            Webhook(owner=owners[number % 1000], url=URL, **{"status": "active", **status.get(number % 100, {})})
            for number in range(10_000)
        ]
    )
    ids = sorted(webhook.pk for webhook in made)
    results = [figures(Counters({"succeeded_at_once": 50, "given_up": n, "ms_100": n})) for n in range(40)]
    recent = {pk: dict.fromkeys(("hour", "day", "week"), results[n % 40]) for n, pk in enumerate(ids) if n % 50 != 5}
    WebhookHealth.objects.bulk_create(
        WebhookHealth(
            webhook_id=pk,
            recent=found,
            last_success_at=NOW,
            failing_since=NOW if n % 30 == 4 else None,
            given_up_since=NOW if n % 30 == 4 else None,
        )
        for n, (pk, found) in enumerate(recent.items())
    )
    Rollup.objects.bulk_create(
        Rollup(
            webhook_id=pk, resolution=resolution, start=start, given_up=n % 3, counts={"given_up": n % 3, "ms_100": 50}
        )
        for n, pk in enumerate(ids)
        for resolution, start in (("hour", MIDNIGHT), ("hour", MIDNIGHT + timedelta(hours=24)), ("day", MIDNIGHT))
    )
    for place, start in enumerate(range(0, len(ids), WEBHOOKS_AT_A_TIME)):
        some = ids[start : start + WEBHOOKS_AT_A_TIME]
        pack("default", place, some, {pk: recent[pk] for pk in some if pk in recent})
    update_statistics()


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables", "crowd")
def test_of_10_000_webhooks_a_page_reads_few(superuser: Page) -> None:
    states: list[dict[str, str]] = [{}, *({"state": each.value} for each in Standing)]
    queries = [{"sort": sign + name, "p": p} for name in COLUMNS for sign in ("", "-") for p in ("1", "20")]
    queries += [{"sort": sort, **state} for state in states for sort in ("-errors", "state", "owner")]
    interval = between(MIDNIGHT, MIDNIGHT + timedelta(hours=30))
    queries += [{**interval, "sort": sort, **state} for state in states for sort in ("-errors", "p95", "owner")]

    read = {str(query): rows_read(partial(listed, superuser, **query)) for query in queries}

    assert {query: rows for query, rows in read.items() if rows > 10_000} == {}


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables", "crowd")
def test_of_1500_webhooks_further_pages_read_few(superuser: Page) -> None:
    """PostgreSQL reads small tables from the beginning to the end, so few queries may be made."""
    kept = Webhook.objects.order_by("pk").values_list("pk", flat=True)[:1500]
    Webhook.objects.exclude(pk__in=list(kept)).delete()
    update_statistics()
    sorts = [sign + name for name in COLUMNS for sign in ("", "-")]
    states = ["", *(each.value for each in Standing)]
    queries = [
        {"sort": sort, "state": states[place % len(states)], "p": p}
        for place, sort in enumerate(sorts)
        for p in ("1", "4", "17")
    ]
    queries += [{"sort": sort, "state": state, "p": "3"} for sort in ("owner", "-state", "errors") for state in states]

    read = {str(query): rows_read(partial(listed, superuser, **query)) for query in queries}

    assert {query: rows for query, rows in read.items() if rows > 10_000} == {}


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables", "crowd")
def test_the_pages_of_an_account_with_most_of_1500_webhooks_read_few(staff: Callable[..., Page]) -> None:
    page = staff("berta", "view_webhook", "view_delivery")
    kept = list(Webhook.objects.order_by("pk").values_list("pk", flat=True)[:1500])
    Webhook.objects.exclude(pk__in=kept).delete()
    Webhook.objects.filter(pk__in=kept[:1000]).update(owner=page.user)
    update_statistics()
    states = ("failing", "partly_failing", "healthy", "disabled")
    queries = [{"sort": sort, "state": state, "p": p} for sort in ("owner", "-p95") for state in states for p in "16"]

    read = {str(query): rows_read(partial(listed, page, **query)) for query in queries}

    assert {query: rows for query, rows in read.items() if rows > 8000} == {}


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables", "crowd")
def test_a_page_of_healthy_webhooks_among_disabled_ones_reads_few(superuser: Page) -> None:
    kept = Webhook.objects.order_by("pk").values_list("pk", flat=True)[:100]
    Webhook.objects.exclude(pk__in=list(kept)).update(status="disabled")
    update_statistics()
    queries: list[dict[str, str]] = [
        {"state": "healthy", "sort": sign + name} for name in COLUMNS for sign in ("", "-")
    ]

    read = {str(query): rows_read(partial(listed, superuser, **query)) for query in queries}

    assert {query: rows for query, rows in read.items() if rows > 10_000} == {}


def test_nothing_is_inline(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    new_receiver(given_up=1, failing_since=timezone.now())
    parts = InlineParts()
    parts.feed(text(receivers(superuser)))

    assert parts.found == []


@pytest.mark.parametrize("model", ["receivers", "eventtypes", "operations"])
def test_the_breadcrumbs_of_a_page_about_no_model_name_no_model(superuser: Page, model: str) -> None:
    names = breadcrumbs(text(superuser.get(model)))

    assert (names[:2], len(names)) == (["Home", "Webhooks"], 3)


def exported(page: Page, query: str = "", **form: str) -> list[dict[str, Any]]:
    answer: Any = page.client.post(f"/admin/webhooks_app/receivers/export/?{query}", {"format": "ndjson", **form})
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.getvalue().decode().splitlines()]


def test_an_export_has_the_filtered_rows_in_their_order(
    superuser: Page, new_receiver: Callable[..., Webhook], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers_page, "ROWS_PER_PAGE", 2)
    since = timezone.now() - timedelta(hours=1)
    made = [new_receiver(superuser.user, succeeded=20, given_up=each, failing_since=since) for each in range(5)]
    new_receiver(superuser.user, succeeded=20).disable(ReasonText("disabled_by_owner"))
    query = "state=failing&sort=errors"

    found = exported(superuser, query)

    assert (
        [row["id"] for row in found]
        == [webhook.pk for webhook in made]
        == listed(superuser, state="failing", sort="errors")
    )
    assert found[4] == {
        "id": made[4].pk,
        "url": made[4].url,
        "account": "root",
        "state": "failing",
        "status_reason": "",
        "status_reason_code": "",
        "period": "day",
        "requests": 24,
        "failed": 4,
        "finished": 24,
        "given_up": 4,
        "p50_ms": 75,
        "p95_ms": 98,
        "queued": 0,
        "failing_since": format_time(since),
    }
    entry = AuditEntry.objects.get(action="list.exported")
    assert (entry.subject, entry.changes["rows"]) == ("receivers", [None, 5])
    assert "state=failing" in entry.changes["filters"][1]


def test_an_export_is_the_same_in_every_language(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    new_receiver(given_up=3).disable(ReasonText("disabled_by_owner"))
    files = []

    for language in ("en", "de"):
        superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
        with translation.override(language):
            files.append(exported(superuser))

    assert files[0] == files[1]
    assert (files[0][0]["state"], files[0][0]["status_reason_code"]) == ("disabled", "disabled_by_owner")


def test_an_export_has_only_own_rows_without_names(
    staff: Callable[..., Page], superuser: Page, new_receiver: Callable[..., Webhook]
) -> None:
    new_receiver(superuser.user)
    page = staff("berta", "view_webhook", "view_delivery")
    own = new_receiver(page.user, url="https://own.example.com/=1+1")

    assert [(row["id"], "account" in row) for row in exported(page)] == [(own.pk, False)]
    assert staff("carol", "view_webhook").client.post("/admin/webhooks_app/receivers/export/").status_code == 403


@pytest.mark.parametrize(
    ("query", "form", "status"),
    [("state=nonsense", "csv", 400), ("", "xlsx", 400), ("owner=%00", "csv", 400), ("", "csv", 200)],
)
def test_an_invalid_export_is_refused(superuser: Page, query: str, form: str, status: int) -> None:
    answer = superuser.client.post(f"/admin/webhooks_app/receivers/export/?{query}", {"format": form})

    assert answer.status_code == status
    assert AuditEntry.objects.exists() == (status == 200)


def test_a_cell_of_an_export_is_no_formula(superuser: Page, new_receiver: Callable[..., Webhook]) -> None:
    new_receiver(get_user_model().objects.create_user("=1+1"))

    answer: Any = superuser.client.post("/admin/webhooks_app/receivers/export/", {"format": "csv"})

    head, row = csv.reader(io.StringIO(answer.getvalue().decode(), newline=""))
    assert row[head.index("account")] == "'=1+1"
    assert shows(receivers(superuser), "Export CSV")
