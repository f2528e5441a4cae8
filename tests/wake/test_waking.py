"""Wake-ups after a commit, and their absence in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.db import transaction

from webhooks_app.models import DeliveryAttempt
from webhooks_app.wake import BaseMessageWake, BaseWake, configured_wake, waking_workers

from ..support.rows import emit_one

pytestmark = pytest.mark.django_db(transaction=True)


class Recorder(BaseWake):
    def __init__(self) -> None:
        self.woken: list[Sequence[str]] = []

    def wake(self, using: str, webhook_ids: Sequence[str]) -> None:
        self.woken.append(webhook_ids)


class Letters(BaseMessageWake):
    sent = 0

    def send(self) -> None:
        self.sent += 1


@pytest.fixture
def recorder(settings: Any) -> Any:
    settings.WEBHOOKS_WAKE = f"{__name__}.Recorder"
    recorder: Any = configured_wake()
    recorder.woken.clear()
    return recorder


def test_a_test_wakes_no_worker(alice: Any, webhook: Any, recorder: Recorder) -> None:
    emit_one(alice)

    assert recorder.woken == []


def test_a_project_that_keeps_its_mails_in_memory_wakes_workers(
    alice: Any, webhook: Any, recorder: Recorder, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["www.example.com"]  # unlike a test environment, which has django.core.mail.outbox too

    emit_one(alice)

    assert len(recorder.woken) == 1


def test_eager_tasks_of_a_test_send_nothing(alice: Any, webhook: Any, host_celery: Any) -> None:
    host_celery(task_always_eager=True)

    emit_one(alice)

    assert not DeliveryAttempt.objects.exists()


def test_a_commit_wakes_workers_within_waking_workers(alice: Any, webhook: Any, recorder: Recorder) -> None:
    with waking_workers():
        with transaction.atomic():
            emit_one(alice)
            assert recorder.woken == []
        assert len(recorder.woken) == 1

    emit_one(alice)
    assert len(recorder.woken) == 1


def test_a_rollback_wakes_no_worker(alice: Any, webhook: Any, recorder: Recorder) -> None:
    with waking_workers(), transaction.atomic():
        emit_one(alice)
        transaction.set_rollback(True)

    assert recorder.woken == []


def test_eager_tasks_deliver_before_emit_returns(alice: Any, webhook: Any, host_celery: Any) -> None:
    host_celery(task_always_eager=True)

    with waking_workers():
        emit_one(alice)

    assert DeliveryAttempt.objects.count() == 1


def test_messages_are_folded() -> None:
    letters = Letters()

    for _ in range(20):
        letters.wake("default", ())

    assert letters.sent == 1
