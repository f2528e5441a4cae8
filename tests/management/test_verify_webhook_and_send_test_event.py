"""``verify_webhook`` and ``send_test_event`` with a running worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from django.core.management.base import CommandError
from django.test import override_settings

from tests.support.retries import QUICK
from tests.support.rows import unverified
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery, Webhook
from webhooks_app.receiver.local import Answers, ChallengeAnswer, LocalReceiver

from .conftest import Output

Run = Callable[..., Output]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quick_retries() -> Iterator[None]:
    with override_settings(WEBHOOKS_RETRY_POLICIES=[QUICK], WEBHOOKS_SWEEP_SECONDS=0.05):
        yield


def test_verify_shows_the_attempt_and_prints_the_status(run: Run, webhook: Webhook, worker: Engine) -> None:
    unverified(webhook)

    output = run("verify_webhook", webhook.id)

    assert output.stdout == "active\n"
    assert "attempt 1 of 4: succeeded (status 200)" in output.stderr


def test_verify_fails_on_a_wrong_challenge(run: Run, webhook: Webhook, receiver: LocalReceiver, worker: Engine) -> None:
    receiver.answers = Answers(challenge=ChallengeAnswer.WRONG)
    unverified(webhook)

    with pytest.raises(CommandError, match=r"handshake failed: .* another challenge") as caught:
        run("verify_webhook", webhook.id)

    webhook.refresh_from_db()
    assert caught.value.returncode == 1
    assert webhook.status == Webhook.Status.FAILED


def test_verify_without_waiting_leaves_the_handshake_to_a_worker(run: Run, webhook: Webhook) -> None:
    unverified(webhook)

    output = run("verify_webhook", webhook.id, "--no-wait")

    assert output.stdout == "pending\n"
    assert Delivery.objects.get().kind == Delivery.Kind.VERIFICATION


def test_verify_refuses_a_disabled_webhook(run: Run, webhook: Webhook) -> None:
    webhook.disable("by hand")

    with pytest.raises(CommandError, match=r"disabled. Enable it first. Reason: by hand"):
        run("verify_webhook", webhook.id)


@pytest.mark.parametrize("command", [("verify_webhook",), ("send_test_event", "file.deleted")], ids=lambda it: it[0])
def test_an_unknown_webhook_is_refused(run: Run, webhook: Webhook, command: tuple[str, ...]) -> None:
    webhook.soft_delete()

    with pytest.raises(CommandError, match="Unknown webhook"):
        run(command[0], webhook.id, *command[1:])


def test_a_test_event_carries_the_example_and_prints_its_delivery(
    run: Run, webhook: Webhook, receiver: LocalReceiver, worker: Engine
) -> None:
    output = run("send_test_event", webhook.id, "ppt.edit.started", "--wait")

    [received] = receiver.events()
    assert output.stdout == f"{Delivery.objects.get().id}\n"
    assert (received.type, received.message["data"]["title"]) == ("ppt.edit.started", "Annual report 2025")


def test_a_test_event_may_have_custom_data(run: Run, webhook: Webhook) -> None:
    data = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}

    run("send_test_event", webhook.id, "file.deleted", "--data", json.dumps(data))

    event = Delivery.objects.get().event
    assert event is not None
    assert (event.data, event.is_test) == (data, True)


def test_waiting_for_a_test_event_shows_each_attempt_and_fails_with_it(
    run: Run, webhook: Webhook, receiver: LocalReceiver, worker: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = Answers(statuses=(500, 503, 404))

    with pytest.raises(CommandError, match="given up"):
        run("send_test_event", webhook.id, "file.deleted", "--wait")

    assert [received.status for received in receiver.events("file.deleted")] == [500, 503, 404, 404]


def test_waiting_without_a_worker_explains_how_to_start_one(
    run: Run, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks_app.management.base.SPARE_SECONDS", -1000.0)

    with pytest.raises(CommandError, match=r"manage\.py deliver_webhooks"):
        run("send_test_event", webhook.id, "file.deleted", "--wait")
