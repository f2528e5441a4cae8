"""Statements planned once per session by PostgreSQL."""

from __future__ import annotations

import time

import pytest
from django.db import ProgrammingError, connection, transaction

from webhooks_app.database import sql
from webhooks_app.database.sql import PreparedStatement

pytestmark = [pytest.mark.only_on("postgresql"), pytest.mark.django_db(transaction=True)]

SUM = "SELECT %(first)s + %(second)s, %(first)s, '%%'"
ADDITION = PreparedStatement(SUM, {"first": "integer", "second": "integer"})


def value(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def number_of_prepared_statements():
    return value("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'webhooks_app_%'")


@pytest.fixture(autouse=True)
def own_connection():
    connection.close()
    yield
    connection.close()
    sql._unprepared_until.clear()


def test_a_statement_is_prepared_once_per_session():
    results = [ADDITION.fetch(connection, {"first": 1, "second": number}) for number in range(3)]

    assert results == [[(1, 1, "%")], [(2, 1, "%")], [(3, 1, "%")]]
    assert number_of_prepared_statements() == 1


def test_a_new_connection_prepares_the_statement_again():
    ADDITION.fetch(connection, {"first": 1, "second": 2})
    connection.close()

    assert ADDITION.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]
    assert number_of_prepared_statements() == 1


SETTINGS = ("enable_seqscan", "enable_bitmapscan")


def test_the_planner_settings_end_with_the_statement():
    ADDITION.fetch(connection, {"first": 1, "second": 2})

    assert [value(f"SHOW {name}") for name in SETTINGS] == ["on", "on"]


def test_the_planner_settings_do_not_affect_the_rest_of_a_transaction():
    with transaction.atomic():
        ADDITION.fetch(connection, {"first": 1, "second": 2})

        assert [value(f"SHOW {name}") for name in SETTINGS] == ["on", "on"]


def test_the_plan_of_an_empty_table_reads_only_the_beginning_of_a_later_backlog():
    values = {"webhook": 1}
    first = PreparedStatement(
        "SELECT due FROM backlog WHERE webhook = %(webhook)s AND due > 0 ORDER BY due LIMIT 10", {"webhook": "integer"}
    )
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE backlog (webhook integer, due integer)")
        cursor.execute("CREATE INDEX ON backlog (webhook, due)")
        for _ in range(6):  # PostgreSQL then keeps a plan for all values
            first.fetch(connection, values)
        cursor.execute("INSERT INTO backlog SELECT 1, generate_series(1, 10000)")
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%backlog%'")
        (name,) = cursor.fetchone()
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name} (1)")
        ((plan,),) = cursor.fetchall()

    assert plan[0]["Plan"]["Node Type"] == "Limit"
    assert plan[0]["Plan"]["Plans"][0]["Node Type"] in {"Index Scan", "Index Only Scan"}
    assert first.fetch(connection, values) == [(number,) for number in range(1, 11)]


def test_a_session_that_lost_the_statement_executes_it_unprepared():
    ADDITION.fetch(connection, {"first": 1, "second": 2})
    connection.cursor().execute("DEALLOCATE ALL")

    results = [ADDITION.fetch(connection, {"first": 2, "second": number}) for number in range(2)]

    assert results == [[(2, 2, "%")], [(3, 2, "%")]]
    assert number_of_prepared_statements() == 0


def test_in_a_transaction_a_lost_statement_is_an_error_only_once():
    ADDITION.fetch(connection, {"first": 1, "second": 2})
    connection.cursor().execute("DEALLOCATE ALL")
    with pytest.raises(ProgrammingError), transaction.atomic():
        ADDITION.fetch(connection, {"first": 1, "second": 2})

    with transaction.atomic():
        assert ADDITION.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]


def test_a_session_with_the_statement_of_another_connection_executes_it_unprepared():
    ADDITION.fetch(connection, {"first": 1, "second": 2})
    sql._prepared.clear()  # as with a new driver object for the same session

    results = [ADDITION.fetch(connection, {"first": 2, "second": number}) for number in range(2)]

    assert results == [[(2, 2, "%")], [(3, 2, "%")]]


def test_after_an_error_new_connections_prepare_nothing_for_a_while():
    ADDITION.fetch(connection, {"first": 1, "second": 2})
    connection.cursor().execute("DISCARD ALL")
    counts = []
    for seconds_left in (None, sql.UNPREPARED_SECONDS, 0):
        if seconds_left is not None:
            connection.close()
            sql._unprepared_until["default"] = time.monotonic() + seconds_left
        assert ADDITION.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]
        counts.append(number_of_prepared_statements())

    assert counts == [0, 0, 1]


def test_in_a_transaction_of_the_caller_only_a_statement_with_any_plan_is_prepared():
    with_any_plan = PreparedStatement(SUM, {"first": "integer", "second": "integer"}, by_index=False)
    for statement, expected in ((ADDITION, 0), (with_any_plan, 1)):
        with transaction.atomic(), transaction.atomic():
            assert statement.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]

        assert number_of_prepared_statements() == expected


def test_a_connection_with_few_executions_prepares_nothing():
    statement = PreparedStatement(SUM, {"first": "integer", "second": "integer"}, after=2)
    counts = []
    for _ in range(4):
        assert statement.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]
        counts.append(number_of_prepared_statements())

    assert counts == [0, 0, 1, 1]


def test_nothing_is_prepared_if_the_session_has_another_process(monkeypatch):
    connection.ensure_connection()
    monkeypatch.setattr(type(connection.connection.info), "backend_pid", 1)

    assert ADDITION.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]
    assert number_of_prepared_statements() == 0


@pytest.mark.parametrize(
    ("setting", "value"), [("DISABLE_SERVER_SIDE_CURSORS", True), ("OPTIONS", {"server_side_binding": True})]
)
def test_nothing_is_prepared_for_shared_sessions_or_server_side_binding(setting, value, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, setting, value)

    assert ADDITION.fetch(connection, {"first": 1, "second": 2}) == [(3, 1, "%")]
    assert number_of_prepared_statements() == 0
