"""The number of queries of each operation."""

from __future__ import annotations

import pytest

from webhooks_app.operations.actors import PROJECT

from ..support.statements import statements_of
from .use_cases import USE_CASES

pytestmark = pytest.mark.django_db

MOST = {
    "register": 13,
    "update": 20,
    "delete": 11,
    "pause": 6,
    "resume": 6,
    "disable": 12,
    "enable": 14,
    "verify": 10,
    "rotate the secret": 11,
    "activate the secret": 9,
    "withdraw the secret": 9,
    "revoke the previous secret": 8,
    "send a test": 9,
    "redeliver": 11,
    "redeliver a test": 11,
    "retry": 10,
    "retry a test": 10,
    "plan a replay": 23,
    "recover missed events": 23,
    "start a replay": 9,
    "pause a replay": 8,
    "resume a replay": 10,
    "cancel a replay": 10,
    "acknowledge a problem": 8,
    "ignore a problem": 8,
    "reopen a problem": 8,
}
"""With the savepoint in the transaction of the test, and SQLite's statement that takes the write lock."""


@pytest.mark.parametrize("name", USE_CASES)
def test_an_operation_has_no_more_queries_than_recorded(webhook, name):
    case = USE_CASES[name]
    subject = case.make(webhook)
    subject = type(subject).objects.get(pk=subject.pk)

    found = statements_of(lambda: case.call(subject, PROJECT))

    assert len(found) <= MOST[name], "\n".join(found)
