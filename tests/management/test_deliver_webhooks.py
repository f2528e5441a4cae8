"""``deliver_webhooks`` in a separate process."""

from __future__ import annotations

import gc
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webhooks_app.emission import emit
from webhooks_app.models import Delivery, Webhook
from webhooks_app.receiver.local import Answers, LocalReceiver
from webhooks_app.signals import attempt_made

from .conftest import Output

Begin = Callable[..., "subprocess.Popen[str]"]

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}
TIMEOUT = 60

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.only_on("sqlite")]


def test_until_idle_delivers_what_is_due_and_counts_it(
    begin: Begin, owner: Any, webhook: Webhook, receiver: LocalReceiver
) -> None:
    for _ in range(3):
        emit("file.deleted", DATA, owner=owner)

    process = begin("deliver_webhooks", "--until-idle")
    stdout, stderr = process.communicate(timeout=TIMEOUT)

    assert process.returncode == 0
    assert stdout == "attempts: 3, succeeded: 3, given up: 0\n"
    assert stderr.startswith("Delivering webhooks from ")
    assert "with the transport" in stderr
    assert len(receiver.events("file.deleted")) == 3


def test_without_tables_it_ends_with_one_sentence(begin: Begin, tmp_path: Path) -> None:
    process = begin("deliver_webhooks", TEST_DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3")
    stdout, stderr = process.communicate(timeout=TIMEOUT)

    assert process.returncode == 1
    assert stdout == ""
    assert stderr == ("CommandError: The database has no tables of webhooks_app yet. Run `manage.py migrate` first.\n")


def test_collections_are_rare_and_skip_long_lived_objects_while_it_runs(
    run: Callable[..., Output], owner: Any, webhook: Webhook, receiver: LocalReceiver
) -> None:
    frozen: list[int] = []
    thresholds: list[int] = []
    before = gc.get_threshold()

    def count(**kwargs: Any) -> None:
        frozen.append(gc.get_freeze_count())
        thresholds.append(gc.get_threshold()[0])

    attempt_made.connect(count)
    emit("file.deleted", DATA, owner=owner)

    run("deliver_webhooks", "--until-idle")

    assert frozen[0] > 10_000
    assert thresholds == [10_000]
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_requests_in_flight_finish_after_a_signal(
    begin: Begin, owner: Any, webhook: Webhook, receiver: LocalReceiver, number: signal.Signals
) -> None:
    receiver.answers = Answers(delay_seconds=1)
    emit("file.deleted", DATA, owner=owner)

    process = begin("deliver_webhooks")
    assert receiver.wait_until(bool, TIMEOUT)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=TIMEOUT)

    assert (process.returncode, stdout) == (0, "attempts: 1, succeeded: 1, given up: 0\n")
    assert "Traceback" not in stderr
    assert Delivery.objects.get().state == Delivery.State.SUCCEEDED


def test_a_second_signal_ends_it_at_once(begin: Begin, owner: Any, webhook: Webhook, receiver: LocalReceiver) -> None:
    receiver.answers = Answers(delay_seconds=TIMEOUT)
    emit("file.deleted", DATA, owner=owner)

    process = begin("deliver_webhooks")
    assert receiver.wait_until(bool, TIMEOUT)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)

    assert process.returncode == 130
    assert "lease" in stderr
    assert "Traceback" not in stderr
