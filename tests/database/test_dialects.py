"""The dialects of the vendors, and their different statements."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from webhooks_app.database.dialects import SUPPORTED_SYSTEMS, dialect_for, dialect_of, is_supported
from webhooks_app.database.sql import OuterId, for_each, take_write_lock
from webhooks_app.models import Delivery, Event, Webhook

from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db


def test_the_dialect_is_that_of_the_connection():
    assert dialect_of("default") is dialect_for(connection)
    assert dialect_of("default").name == connection.vendor
    assert connection.display_name in SUPPORTED_SYSTEMS


def test_the_tests_use_the_selected_database(pytestconfig):
    database = pytestconfig.getoption("database")

    assert connection.vendor == {"mariadb": "mysql"}.get(database, database)


def test_an_unsupported_system_has_no_features(monkeypatch):
    monkeypatch.setattr(connection, "vendor", "oracle")

    assert not is_supported(connection)
    assert not dialect_for(connection).can_notify
    assert dialect_for(connection).now_sql is None


def test_ids_sort_by_bytes(alice, webhook):
    first, last = f"wh_{'0' * 31}1", f"wh_{'f' * 32}"
    for pk in (last, first):
        make_webhook(alice, id=pk)

    assert list(Webhook.objects.order_by("pk").values_list("pk", flat=True)) == [first, webhook.pk, last]


def test_a_query_runs_for_each_id_with_its_own_limit(alice):
    webhooks = [make_webhook(alice) for _ in range(3)]
    for _ in range(3):
        emit_one(alice)
    query = Delivery.objects.filter(webhook=OuterId("part")).order_by("-pk").values_list("webhook")[:2]
    field = Delivery._meta.get_field("webhook")
    ids = [field.get_db_prep_value(webhook.pk, connection) for webhook in webhooks[:2]]

    sql, params = for_each(connection, "part", ids, query.query.get_compiler("default").as_sql())
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        found = sorted(row[0] for row in cursor.fetchall())

    assert found == sorted([*ids, *ids])


def test_the_write_lock_requires_a_statement_only_without_row_locks(django_assert_num_queries):
    dialect = dialect_of("default")
    assert dialect.has_single_writer is not connection.features.has_select_for_update

    with transaction.atomic(), django_assert_num_queries(1 if dialect.has_single_writer else 0):
        take_write_lock("default", Webhook)


def test_an_operation_without_effect_can_be_executed():
    with connection.cursor() as cursor:
        cursor.execute(dialect_of("default").no_operation_sql)


def test_every_table_has_an_estimate(alice):
    emit_one(alice)
    names = [Event._meta.db_table, Webhook._meta.db_table]
    dialect = dialect_of("default")

    dialect.analyze(connection, names)
    estimates = dialect.table_estimates(connection, names)

    assert set(estimates) == set(names)


@pytest.mark.only_on("postgresql")
def test_analyze_updates_the_estimate(alice):
    emit_one(alice)
    table = Event._meta.db_table

    dialect_of("default").analyze(connection, [table])

    assert dialect_of("default").table_estimates(connection, [table])[table].rows == 1


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, True), ({"transaction_mode": "DEFERRED"}, True), ({"transaction_mode": "immediate"}, False)],
    ids=["default", "deferred", "immediate"],
)
def test_a_deferred_transaction_begins_by_reading(monkeypatch, options, expected):
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)

    assert dialect_of("default").begins_by_reading(connection) is expected
