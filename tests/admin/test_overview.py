"""The overview: figures, permissions and number of queries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import DEFAULT_DB_ALIAS, connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.reading import cells, figure, named, words
from webhooks_app.admin.display import console_url
from webhooks_app.emission import emit
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.reading import Counters, Point, Series, Window
from webhooks_app.models import (
    AuditEntry,
    Delivery,
    QueueEntry,
    QueueLane,
    Replay,
    Rollup,
    Webhook,
    WebhookHealth,
    WorkerProcess,
)
from webhooks_app.models.rollup import id_of_account
from webhooks_app.pages import charts
from webhooks_app.protocol.ids import first_id_at

from ..support.plans import rows_read, update_statistics
from .conftest import DATA, Page, shows, text
from .test_content_security import InlineParts

URL = "admin:app_list"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
FAILING = {"failing_since": LONG_AGO, "given_up_since": LONG_AGO, "given_up_count": 3}
COUNTED = {"succeeded_at_once": 6, "succeeded_later": 2, "given_up": 2, "failed_timeout": 8, "ms_100": 8, "ms_sum": 640}


def overview(page: Page, **query: str) -> str:
    return text(page.client.get(reverse(URL, args=["webhooks_app"]), query))


@pytest.fixture
def counted(webhook: Webhook) -> Webhook:
    make_tally(timezone.now(), **{webhook.pk: COUNTED})
    fold(DEFAULT_DB_ALIAS)
    return webhook


def test_the_figures_match_the_records(superuser: Page, counted: Webhook) -> None:
    html = overview(superuser, window="hour")

    assert figure(html, "Delivered") == "8 80%"
    assert figure(html, "Given up") == "2"
    assert figure(html, "Deliveries per minute") == "0.2"
    assert figure(html, "Response time, median") == "75 ms"


@pytest.mark.parametrize("window", ["hour", "day", "week", "month", "never", ""])
def test_every_window_has_its_charts_and_a_table_with_the_same_numbers(
    superuser: Page, counted: Webhook, window: str
) -> None:
    html = overview(superuser, window=window)

    outcomes = named(html, "Deliveries by outcome")
    assert [len(outcomes.find_all(each)) for each in ("path", "a")] == [3, 1]
    assert "6" in cells(html, "At the first attempt")
    assert str(named(html, "8 delivered, 2 given up").name) == "svg"


@pytest.mark.parametrize("window", ["hour", "day", "week", "month"])
def test_a_bar_leads_to_the_deliveries_of_its_time(superuser: Page, webhook: Webhook, window: str) -> None:
    at = timezone.now()
    make_tally(at, **{webhook.pk: COUNTED})
    hour = timedelta(hours=1)
    ids = [first_id_at("dlv", at - number * hour) for number in range(14)]
    finished = [("succeeded", at)] * 8 + [("given_up", at)] * 2
    others = [("succeeded", at - 40 * 24 * hour), ("cancelled", at), ("pending", None), ("succeeded", at)]
    Delivery.objects.bulk_create(
        Delivery(
            id=pk, webhook=webhook, state=state, finished_at=finished_at, kind="test" if pk == ids[-1] else "event"
        )
        for pk, (state, finished_at) in zip(ids, [*finished, *others], strict=True)
    )

    (bar,) = named(overview(superuser, window=window), "Deliveries by outcome").find_all("a")
    listed = superuser.client.get(bar["href"]).context["cl"].result_list

    assert [row.pk for row in listed] == ids[:10]
    assert bar["aria-label"].endswith(": 8 delivered, 2 given up")


@pytest.mark.parametrize("hour", [0, 1], ids=["first", "repeated"])
def test_the_bars_of_the_repeated_hour_of_autumn_lead_to_their_own_time(
    superuser: Page, webhook: Webhook, settings: Any, hour: int
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    at = datetime(2026, 10, 25, hour, 30, tzinfo=UTC)  # 02:30 in Berlin, twice
    point = Point(start=at, counters=Counters({"succeeded_at_once": 1, "attempts": 1}))
    series = Series(points=[point], step_seconds=60)
    moments = [datetime(2026, 10, 25, each, 30, 30, tzinfo=UTC) for each in (0, 1)]
    made = [
        Delivery(id=first_id_at("dlv", moment), webhook=webhook, state="succeeded", finished_at=moment)
        for moment in moments
    ]
    Delivery.objects.bulk_create(made)

    with timezone.override("Europe/Berlin"):
        (bar,) = charts.shown(series, Window.HOUR, partial(console_url, "delivery_changelist", site="admin"))["bars"]
        listed = superuser.client.get(bar.url).context["cl"].result_list

    assert listed == [made[hour]]


def test_the_bars_of_a_webhook_lead_to_its_own_deliveries(
    superuser: Page, counted: Webhook, new_webhook: Callable[..., Webhook]
) -> None:
    Delivery.objects.queue(webhook=new_webhook(None), kind="test")

    page = text(superuser.get("webhook", "change", counted.pk))

    (bar,) = named(page, "Deliveries by outcome").find_all("a")
    assert f"webhook_id={counted.pk}" in bar["href"]
    assert superuser.client.get(bar["href"]).context["cl"].result_count == 0


@pytest.mark.parametrize("window", list(Window), ids=lambda window: window.value)
def test_the_labels_of_the_time_axis_are_regular(window: Window) -> None:
    points = [
        Point(start=start, counters=Counters({"given_up": 1}))
        for start in window.starts(datetime(2026, 3, 5, 9, 37, tzinfo=UTC))
    ]

    frame, _ = charts.outcomes(Series(points=points, step_seconds=int(window.step.total_seconds())), window)

    distances = {round(after.at - before.at) for before, after in pairwise(frame.times)}
    assert max(distances) - min(distances) <= 1
    assert 4 <= len(frame.times) <= 8


def test_waiting_deliveries_are_counted(superuser: Page, webhook: Webhook) -> None:
    emit("file.deleted", DATA, owner=webhook.owner)

    html = overview(superuser)

    assert figure(html, "Waiting") == "1"
    assert figure(html, "In flight") == "0"
    assert "No deliveries in this period." in html


def test_a_webhook_with_deliveries_given_up_is_named(superuser: Page, counted: Webhook) -> None:
    html = overview(superuser)

    assert reverse("admin:webhooks_app_webhook_change", args=[counted.pk]) in html
    assert "8 of 10" in html


def test_a_paused_failing_webhook_is_marked(superuser: Page, counted: Webhook) -> None:
    counted.pause()

    assert any("Paused since" in cell for cell in cells(overview(superuser), "State"))


@pytest.mark.parametrize(("seconds_ago", "workers"), [(5, "1"), (120, "0")], ids=["seen", "long gone"])
def test_the_number_of_workers_is_shown(superuser: Page, seconds_ago: int, workers: str) -> None:
    seen_at = timezone.now() - timedelta(seconds=seconds_ago)
    WorkerProcess.objects.create(id="host:1:1", host="host", pid=1, started_at=seen_at, seen_at=seen_at)

    html = overview(superuser)

    assert figure(html, "Workers") == workers
    assert ("No worker seen" in html) == (workers == "0")


def test_other_staff_see_their_own_account(
    staff: Callable[..., Page], counted: Webhook, new_webhook: Callable[..., Webhook]
) -> None:
    page = staff("boris", "view_delivery", "view_webhook")
    make_tally(timezone.now(), **{new_webhook(page.user).pk: {"succeeded_at_once": 1}})

    html = overview(page)

    assert figure(html, "Delivered") == "1 100%"
    assert counted.url not in html or counted.pk not in html
    assert set(cells(html, "Given up")) == {"0"}


def test_the_overview_needs_permission_to_view_deliveries(staff: Callable[..., Page], counted: Webhook) -> None:
    assert "Deliveries per minute" not in overview(staff("boris", "view_webhook"))


def test_the_number_of_queries_does_not_grow(superuser: Page, new_webhook: Callable[..., Webhook]) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            overview(superuser)
        return len(queries)

    def fail(number: int) -> None:
        webhooks = [new_webhook(superuser.user) for _ in range(number)]
        make_tally(timezone.now(), **{webhook.pk: COUNTED for webhook in webhooks})
        fold(DEFAULT_DB_ALIAS)

    fail(2)
    few = asked()
    fail(30)

    assert asked() <= few <= 21


def test_nothing_is_inline(superuser: Page, counted: Webhook) -> None:
    parts = InlineParts()
    parts.feed(overview(superuser))

    assert parts.found == []


@pytest.mark.parametrize(
    ("most", "end"), [(0, 2), (1, 2), (1.5, 2), (3, 4), (7, 10), (10, 10), (11, 20), (380, 400), (5001, 10_000)]
)
def test_an_axis_ends_at_a_round_number(most: float, end: float) -> None:
    assert charts.ceiling(most) == end


@pytest.mark.parametrize(
    ("finished", "labels"), [(1, ["0", "1"]), (4, ["0", "2", "4"]), (3000, ["0", "2,000", "4,000"])]
)
def test_an_axis_of_counts_is_labelled_with_whole_numbers(finished: int, labels: list[str]) -> None:
    point = Point(start=datetime(2026, 3, 5, tzinfo=UTC), counters=Counters({"succeeded_later": finished}))

    frame, _ = charts.outcomes(Series(points=[point], step_seconds=60), Window.HOUR)

    assert [tick.label for tick in frame.values] == labels


@pytest.mark.parametrize(
    ("succeeded", "given_up", "labels"),
    [(4, 1, ["2", "0", "2", "4"]), (0, 3, ["4", "2", "0", "2"]), (1, 9, ["10", "5", "0", "5"])],
    ids=["few", "only", "most"],
)
def test_what_was_given_up_is_below_the_axis(succeeded: int, given_up: int, labels: list[str]) -> None:
    counters = Counters({"succeeded_at_once": succeeded, "given_up": given_up})
    point = Point(start=datetime(2026, 3, 5, tzinfo=UTC), counters=counters)

    frame, shapes = charts.outcomes(Series(points=[point], step_seconds=60), Window.HOUR)

    starts = {shape.name: float(shape.path.split()[1].partition("V")[0]) for shape in shapes}
    ends = {shape.name: float(shape.path.partition("V")[2]) for shape in shapes}
    assert [tick.label for tick in frame.values] == labels
    assert set(starts.values()) == {frame.zero}
    assert ends.get("succeeded_at_once", 0) < frame.zero < ends["given_up"] <= frame.floor


def test_a_line_is_broken_where_nothing_was_measured() -> None:
    measured = Counters({"succeeded_at_once": 1, "ms_25": 1})
    counters: list[Any] = [measured, Counters(), measured, measured]
    start = datetime(2026, 3, 5, 14, tzinfo=UTC)
    series = Series(points=[Point(start=start, counters=each) for each in counters], step_seconds=60)

    _, (p50, _) = charts.response_times(series, Window.HOUR, charts.percentiles(series))

    assert [len(path.split()) for path in p50.paths] == [2]
    assert len(p50.dots) == 1


def test_response_times_without_any_response_have_no_lines() -> None:
    points = [Point(start=datetime(2026, 3, 5, 14, tzinfo=UTC), counters=Counters({"given_up": 1}))]
    series = Series(points=points, step_seconds=60)

    assert charts.response_times(series, Window.HOUR, charts.percentiles(series))[1] == []


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
@pytest.mark.parametrize(("window", "counted"), [("day", 66), ("week", 23)])
def test_the_overview_of_1_000_accounts_counts_some_and_says_so(
    staff: Callable[..., Page], settings: Any, window: str, counted: int
) -> None:
    settings.WEBHOOKS_OWNERS = "tests.admin.test_owner_search.StaffOwners"
    page, users = staff("berta", "view_webhook", "view_delivery"), get_user_model()
    customers = users.objects.bulk_create(users(username=f"customer-{number}") for number in range(1000))
    Webhook.objects.bulk_create(Webhook(owner=each, url="https://a.example/", status="active") for each in customers)
    starts = {"hour": Window.DAY.starts(timezone.now()), "minute": Window.HOUR.starts(timezone.now())}
    Rollup.objects.bulk_create(
        Rollup(webhook_id=id_of_account(each.pk), resolution=resolution, start=start, counts={"given_up": 1})
        for each in customers
        for resolution, found in starts.items()
        for start in found
    )
    update_statistics()

    address, answers = reverse(URL, args=["webhooks_app"]) + f"?window={window}", list[Any]()

    read = rows_read(lambda: answers.append(page.client.get(address)))

    assert read < 10_000
    assert shows(answers[0], f"This overview is of {counted} of your 1,000 accounts.")


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables")
def test_the_overview_of_an_account_with_10_000_webhooks_reads_some_and_says_so(staff: Callable[..., Page]) -> None:
    page = staff("berta", "view_webhook", "view_delivery")
    event = emit("file.deleted", DATA, owner=page.user)
    webhooks = Webhook.objects.bulk_create(
        Webhook(owner=page.user, url="https://a.example/", status="active") for _ in range(10_000)
    )
    deliveries = Delivery.objects.bulk_create(Delivery(event=event, webhook=each) for each in webhooks)
    QueueEntry.objects.bulk_create(QueueEntry.of(each, timezone.now() - timedelta(minutes=1)) for each in deliveries)
    update_statistics()
    answers = list[Any]()

    read = rows_read(lambda: answers.append(page.client.get(reverse(URL, args=["webhooks_app"]))))

    assert read < 10_000
    assert shows(answers[0], "You have more than 100 webhooks.")
    assert 60 <= int(figure(text(answers[0]), "Oldest overdue").removesuffix(" s")) < 600


@pytest.fixture
def crowd(owner: Any) -> None:
    """1,500 webhooks of one account with their lanes, changes and replays, of which 300 fail."""
    now = timezone.now()
    made = Webhook.objects.bulk_create(
        Webhook(owner=owner, url=f"https://{number}.example/", status="active") for number in range(1500)
    )
    WebhookHealth.objects.bulk_create(
        WebhookHealth(webhook=each, last_success_at=now, **({} if number % 5 else FAILING))
        for number, each in enumerate(made)
    )
    QueueLane.objects.ensure([each.pk for each in made])
    Replay.objects.bulk_create(
        Replay(webhook=each, since=now, until=now, state="finished", finished_at=now) for each in made
    )
    AuditEntry.objects.bulk_create(
        AuditEntry(subject=each.pk, action="webhook.changed", owner_id=owner.pk, changes={}, via="console")
        for each in made
    )
    update_statistics()


@pytest.mark.only_on("postgresql")
@pytest.mark.usefixtures("new_tables", "crowd")
def test_the_overview_of_1_500_webhooks_reads_few_of_them(superuser: Page, staff: Callable[..., Page]) -> None:
    """PostgreSQL reads small tables from the beginning to the end, so few queries may let it."""
    address, answers = reverse(URL, args=["webhooks_app"]), list[Any]()
    owner = get_user_model().objects.get(username="amina")
    owner.is_staff = True
    owner.save()
    owner.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    users = (superuser, Page(get_user_model().objects.get(pk=owner.pk)))

    read = [rows_read(lambda page=page: answers.append(page.client.get(address))) for page in users]  # type: ignore[misc]

    assert shows(answers[0], "https://0.example/")
    assert shows(answers[1], "You have more than 100 webhooks.")
    assert read[0] < 4000
    assert read[1] < 9000


def test_the_overview_says_what_happened_and_leads_there(superuser: Page, counted: Webhook) -> None:
    counted.pause()

    happened = named(overview(superuser), "What happened")

    assert "Webhook paused" in words(happened)
    assert counted.url in words(happened)
    assert happened.select(f'a[href="{reverse("admin:webhooks_app_webhook_change", args=[counted.pk])}"]')


PAST = {"view_delivery", "view_webhook", "view_auditentry", "view_problem", "view_replay"}


@pytest.mark.parametrize("lacking", ["", "view_auditentry", "view_problem", "view_replay"])
def test_only_who_may_view_all_of_it_sees_what_happened(staff: Any, lacking: str) -> None:
    shown = overview(staff("boris", *(PAST - {lacking})))

    assert ("What happened" in shown) is (not lacking)
