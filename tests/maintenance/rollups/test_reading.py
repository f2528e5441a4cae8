"""Data for charts and lists, from folded and unfolded tallies."""

from __future__ import annotations

from datetime import timedelta

import pytest

from webhooks_app.maintenance.rollups import reading
from webhooks_app.maintenance.rollups.folding import fold
from webhooks_app.maintenance.rollups.reading import (
    Counters,
    Histogram,
    Window,
    each,
    ever,
    series,
    total,
    worst_webhooks,
)
from webhooks_app.models import Tally
from webhooks_app.models.rollup import BUCKETS_MS, id_of_account

from ...support.rows import make_webhook
from .conftest import NOW, make_tally


def histogram(**buckets):
    names = [*(f"ms_{bound}" for bound in BUCKETS_MS), "ms_more"]
    return Histogram(buckets=[buckets.get(name, 0) for name in names], sum_ms=0)


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        ({}, 0.5, None),
        ({"ms_10": 10}, 0.5, 5),
        ({"ms_10": 10}, 1, 10),
        ({"ms_10": 50, "ms_25": 50}, 0.5, 10),
        ({"ms_10": 50, "ms_25": 50}, 0.75, 17.5),
        ({"ms_10": 90, "ms_1000": 10}, 0.95, 750),
        ({"ms_more": 3}, 0.5, 30_000),
        ({"ms_100": 1}, 0, 50),
    ],
    ids=["nothing", "middle", "all", "border", "second-bucket", "far-bucket", "above-all", "least"],
)
def test_a_percentile_is_interpolated_in_its_bucket(buckets, share, expected):
    assert histogram(**buckets).percentile(share) == expected


def test_counters_have_the_outcomes_of_deliveries_and_attempts():
    counters = Counters(
        {"succeeded_at_once": 6, "succeeded_later": 2, "given_up": 2, "failed_timeout": 3, "failed_http_status": 7}
    )

    assert (counters.succeeded, counters.finished, counters.success_rate, counters.attempts) == (8, 10, 0.8, 18)
    assert counters.failures == {"http_status": 7, "timeout": 3}


def test_an_unknown_name_is_an_error_so_that_templates_find_properties():
    with pytest.raises(KeyError):
        Counters()["succeeded"]


def test_empty_counters_have_no_rate():
    assert (Counters().success_rate, Counters().response_times.percentile(0.5), Counters().attempts) == (None, None, 0)


@pytest.mark.django_db
@pytest.mark.parametrize("folds", [0, 1, 2], ids=["live", "half-folded", "folded"])
def test_a_series_includes_folded_and_unfolded_tallies(webhook_id, folds):
    for minutes in (70, 59, 1, 0):
        make_tally(NOW - timedelta(minutes=minutes), **{webhook_id: {"succeeded_at_once": 1 + minutes}})
    for _ in range(folds):
        fold("default", limit=2)

    found = series(Window.HOUR, now=NOW)

    numbers = [point.counters.succeeded for point in found.points]
    assert (len(numbers), numbers[0], numbers[-2:]) == (60, 60, [2, 1])
    assert sum(numbers) == found.total.succeeded == 63
    assert found.as_of is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("window", "last_start"),
    [
        (Window.HOUR, NOW.replace(second=0)),
        (Window.DAY, NOW.replace(minute=0, second=0)),
        (Window.WEEK, NOW.replace(minute=0, second=0)),
        (Window.MONTH, NOW.replace(hour=0, minute=0, second=0)),
    ],
    ids=lambda value: getattr(value, "value", ""),
)
@pytest.mark.parametrize("is_folded", [True, False])
def test_a_window_ends_with_the_current_step(webhook_id, window, last_start, is_folded):
    make_tally(NOW, **{webhook_id: {"given_up": 1}})
    make_tally(NOW - window.steps * window.step, **{webhook_id: {"given_up": 5}})
    if is_folded:
        fold("default")

    points = series(window, now=NOW).points

    assert (len(points), points[-1].start, points[-1].counters.given_up) == (window.steps, last_start, 1)
    assert sum(point.counters.given_up for point in points) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("is_folded", [True, False])
def test_webhooks_are_summed_together(webhook_id, other_id, is_folded):
    make_tally(NOW, **{webhook_id: {"given_up": 1}, other_id: {"given_up": 2}, "wh_" + "7" * 32: {"given_up": 4}})
    if is_folded:
        fold("default")

    assert total(Window.DAY, [webhook_id, other_id], now=NOW).given_up == 3
    assert total(Window.DAY, [], now=NOW).given_up == 0
    assert total(Window.DAY, now=NOW).given_up == 7


@pytest.mark.django_db
@pytest.mark.parametrize("folds", [0, 1, 2], ids=["live", "half-folded", "folded"])
def test_an_account_has_the_sum_of_its_own_webhooks(webhook_id, django_user_model, folds):
    alice, bob = (django_user_model.objects.create_user(name) for name in ("alice", "bob"))
    own, others, platform = [make_webhook(alice), make_webhook(alice)], make_webhook(bob), make_webhook(None)
    for minutes in range(2):
        counts = {webhook.pk: {"given_up": 1} for webhook in (*own, others, platform)}
        make_tally(NOW - timedelta(minutes=minutes), **counts, **{webhook_id: {"given_up": 1}})
    for _ in range(folds):
        fold("default", limit=1)

    ids = [id_of_account(owner.pk) for owner in (alice, bob)]
    found = [total(Window.HOUR, some, now=NOW).given_up for some in (ids[:1], ids[1:], ids)]

    assert found == [4, 2, 6]
    assert total(Window.DAY, now=NOW).given_up == 10


@pytest.mark.django_db
def test_the_worst_have_no_accounts(django_user_model):
    webhook = make_webhook(django_user_model.objects.create_user("alice"))
    make_tally(NOW, **{webhook.pk: {"given_up": 1}})
    fold("default")

    assert worst_webhooks(Window.DAY, now=NOW) == [webhook.pk]


@pytest.mark.django_db
@pytest.mark.parametrize("is_folded", [True, False])
def test_each_webhook_of_a_page_has_its_series(webhook_id, other_id, is_folded, django_assert_max_num_queries):
    make_tally(NOW, **{webhook_id: {"given_up": 1}, other_id: {"given_up": 2}})
    silent = "wh_" + "7" * 32
    if is_folded:
        fold("default")

    with django_assert_max_num_queries(3):
        found = each(Window.DAY, [webhook_id, other_id, silent], now=NOW)

    assert {key: value.total.given_up for key, value in found.items()} == {webhook_id: 1, other_id: 2, silent: 0}


@pytest.mark.django_db
def test_the_worst_come_first(webhook_id, other_id):
    make_tally(
        NOW, **{webhook_id: {"given_up": 1}, other_id: {"given_up": 3}, "wh_" + "7" * 32: {"succeeded_later": 9}}
    )
    fold("default")

    assert worst_webhooks(Window.DAY, now=NOW) == [other_id, webhook_id]
    assert worst_webhooks(Window.DAY, [webhook_id], now=NOW) == [webhook_id]
    assert worst_webhooks(Window.DAY, top=1, now=NOW) == [other_id]


@pytest.mark.django_db
@pytest.mark.parametrize(("window", "hours"), [(Window.DAY, 23), (Window.WEEK, 167)], ids=["day", "week"])
def test_the_worst_are_those_of_the_window(webhook_id, other_id, window, hours):
    make_tally(NOW - timedelta(hours=hours + 1), **{webhook_id: {"given_up": 9}})
    make_tally(NOW - timedelta(hours=hours), **{webhook_id: {"given_up": 1}, other_id: {"given_up": 1}})
    make_tally(NOW, **{webhook_id: {"given_up": 1}, other_id: {"given_up": 2}})
    fold("default")

    assert worst_webhooks(window, now=NOW) == [other_id, webhook_id]


@pytest.mark.django_db
def test_totals_over_all_time_never_decrease(webhook_id):
    seen = [ever().given_up]
    for _ in range(3):
        make_tally(NOW, **{webhook_id: {"given_up": 1}})
        seen.append(ever().given_up)
        fold("default")
        seen.append(ever().given_up)

    assert seen == [0, 1, 1, 2, 2, 3, 3]


@pytest.mark.django_db
def test_tallies_folded_during_the_read_count_once(webhook_id, monkeypatch):
    make_tally(NOW, **{webhook_id: {"given_up": 1}})
    rows, folds = reading._rows, iter([True])

    def fold_between(*args):
        if next(folds, False):
            fold("default")
        return rows(*args)

    monkeypatch.setattr(reading, "_rows", fold_between)

    assert total(Window.DAY, now=NOW).given_up == 1


@pytest.mark.django_db
def test_an_incomplete_series_has_the_time_of_its_end(webhook_id, monkeypatch):
    monkeypatch.setattr(reading, "TAIL", 2)
    for seconds in range(3):
        make_tally(NOW + timedelta(seconds=seconds), **{webhook_id: {"given_up": 1}})

    found = series(Window.HOUR, now=NOW)

    assert (found.total.given_up, found.as_of) == (2, NOW + timedelta(seconds=1))
    assert Tally.objects.count() == 3
