"""The report of the emitting process, which is evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection

from webhooks_app.models import Event

from .host import emit_many


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ending", ["savepoint", "mixed"])
def test_only_what_was_committed_is_reported_as_committed(ending: str) -> None:
    """A connection that ends while a savepoint is rolled back: Django rolls back everything, without an error."""
    get_user_model().objects.create_user("alice", pk=1)
    failures = iter([OperationalError("Lost connection")])

    def lose_connection(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if sql.startswith("ROLLBACK TO") and (failure := next(failures, None)):
            raise failure
        return execute(sql, *arguments)

    with connection.execute_wrapper(lose_connection):
        report = emit_many(5, ending, 0, until_committed=True)

    assert next(failures, None) is None
    assert len(report["errors"]) == 1
    assert set(report["committed"]) == set(Event.objects.values_list("pk", flat=True))
    assert not set(report["rolled_back"]) & set(report["committed"])
