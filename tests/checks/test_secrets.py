"""Check of the stored secrets against the configured keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, run_checks
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.support.rows import make_webhook
from webhooks_app.checks import tables
from webhooks_app.models import Webhook

KEY, ANOTHER = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture
def webhooks(db: None, settings: Any) -> list[Webhook]:
    settings.WEBHOOKS_ENCRYPTION_KEYS = [KEY]
    owner = get_user_model().objects.create_user("alice")
    return [make_webhook(owner) for _ in range(3)]


def found() -> list[CheckMessage]:
    return [message for message in run_checks(tags=["webhooks", "database"], databases=["default"]) if message.id]


def test_readable_secrets_are_fine(webhooks: list[Webhook]) -> None:
    assert found() == []


def test_undecryptable_secrets_are_found_and_their_webhooks_named(webhooks: list[Webhook], settings: Any) -> None:
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER]

    [message] = found()

    assert message.id == "webhooks_app.W009"
    assert "secrets of 3 webhooks" in message.msg
    assert all(webhook.pk in message.msg for webhook in webhooks)
    assert "WEBHOOKS_ENCRYPTION_KEYS" in str(message.hint)


def test_the_secret_that_a_prepared_one_will_replace_is_tried_too(webhooks: list[Webhook], settings: Any) -> None:
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER, KEY]
    webhooks[0].rotate_secret(activate_at=timezone.now() + timedelta(days=1))
    webhooks[1].rotate_secret()
    webhooks[2].rotate_secret(overlap=timedelta(0))
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER]

    [message] = found()

    # The one that signs for an overlap is not necessary.
    assert [webhook.pk in message.msg for webhook in webhooks] == [True, False, False]


def test_a_broken_key_is_reported_by_the_check_of_its_setting(webhooks: list[Webhook], settings: Any) -> None:
    settings.WEBHOOKS_ENCRYPTION_KEYS = ["no key"]

    assert [message.id for message in found()] == ["webhooks_app.E004"]


def test_the_number_of_queries_does_not_grow(
    webhooks: list[Webhook], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SAMPLED_ROWS", 1)
    settings.WEBHOOKS_ENCRYPTION_KEYS = [ANOTHER]

    with CaptureQueriesContext(connection) as queries:
        [message] = found()

    assert "secrets of 2 webhooks" in message.msg
    assert len([query for query in queries if "encrypted_key" in query["sql"]]) == 2


def test_no_query_is_made_without_a_selected_database(webhooks: list[Webhook]) -> None:
    with CaptureQueriesContext(connection) as queries:
        run_checks(tags=["webhooks"], include_deployment_checks=True)

    assert len(queries) == 0


def test_a_database_without_our_tables_is_fine(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Webhook._meta, "db_table", "not_there_yet")

    assert found() == []
