"""``redeliver_webhooks``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError

from tests.support.retries import NEVER
from tests.support.rows import deliveries, emit_one, end_deliveries, make_webhook
from webhooks_app import emit
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import AuditEntry, Delivery, Webhook
from webhooks_app.receiver.local import Answers, LocalReceiver

from .conftest import Output

Run = Callable[..., Output]

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}


@pytest.mark.django_db
def test_a_selection_is_redelivered_and_its_new_ids_are_printed(run: Run, owner: Any) -> None:
    make_webhook(owner)
    for error in ("first", "second"):
        emit_one(owner, error)
    end_deliveries(state="given_up")
    first, second = deliveries()

    output = run("redeliver_webhooks", first.pk, second.pk, first.pk)

    again = [Delivery.objects.get(pk=pk) for pk in output.stdout.split()]
    assert [(each.redelivery_of_id, each.event_id) for each in again] == [
        (first.pk, first.event_id),
        (second.pk, second.event_id),
    ]
    assert AuditEntry.objects.filter(action="delivery.redelivered", via="command").count() == 2


@pytest.mark.django_db
def test_refusals_are_named_and_the_others_are_sent(run: Run, owner: Any) -> None:
    going, stopped = make_webhook(owner), make_webhook(owner)
    emit_one(owner)
    end_deliveries(state="given_up")
    stopped.disable("by hand")
    sent, refused = (Delivery.objects.get(webhook=webhook).pk for webhook in (going, stopped))

    with pytest.raises(CommandError, match="Refused: 2 of 3"):
        run("redeliver_webhooks", refused, sent, "dlv_none")

    assert [each.redelivery_of_id for each in Delivery.objects.filter(redelivery_of__isnull=False)] == [sent]


@pytest.mark.django_db
def test_the_only_refusal_is_the_error(run: Run) -> None:
    with pytest.raises(CommandError, match=r"^dlv_none: No such delivery\. An id looks like \w+\.$"):
        run("redeliver_webhooks", "dlv_none")


@pytest.mark.django_db(transaction=True)
def test_waiting_shows_each_attempt_and_fails_if_one_is_given_up(
    run: Run, webhook: Webhook, owner: Any, receiver: LocalReceiver, worker: Engine, settings: Any
) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = [NEVER]
    settings.WEBHOOKS_SWEEP_SECONDS = 0.05
    emit("file.deleted", DATA, owner=owner)
    end_deliveries(state="given_up")
    (delivery,) = deliveries()

    output = run("redeliver_webhooks", delivery.pk, "--wait")
    receiver.answers = Answers(statuses=(500,))

    assert "attempt 1 of 1: succeeded (status 200)" in output.stderr
    with pytest.raises(CommandError, match="Not delivered: 1 of 1"):
        run("redeliver_webhooks", delivery.pk, "--wait")
