"""The handshake decides whether a webhook becomes active."""

from __future__ import annotations

import json

import pytest

from webhooks_app.exceptions import WebhookStateError
from webhooks_app.models import DeliveryAttempt, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import enable, start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.reasons import ReasonText
from webhooks_app.signals import webhook_disabled, webhook_verified
from webhooks_app.transport import Response
from webhooks_app.transport import errors as failures

from ..support.rows import deliveries, emit_one, make_webhook, unverified

pytestmark = pytest.mark.django_db


@pytest.fixture
def pending(alice):
    return make_webhook(alice, status="pending")


def challenge_of(request):
    return json.loads(request.body)["data"]["challenge"]


def test_a_receiver_that_echoes_the_challenge_is_verified(pending, receiver, deliver):
    transport = receiver()

    deliver(transport)

    pending.refresh_from_db()
    assert pending.status == "active"
    assert json.loads(transport.requests[0].body).keys() == {"type", "data"}
    assert transport.requests[0].headers[3] == ("X-Webhook-Event", "webhook.verification")


def test_other_fields_beside_the_challenge_are_ignored(pending, receiver, deliver):
    transport = receiver()
    transport.answer = lambda request: Response(
        status=200, body=json.dumps({"ok": True, "challenge": challenge_of(request)}).encode()
    )

    deliver(transport)

    pending.refresh_from_db()
    assert pending.status == "active"


WRONG_ANSWERS = {
    "another status": lambda c: Response(status=201, body=json.dumps({"challenge": c}).encode()),
    "a bare string": lambda c: Response(status=200, body=json.dumps(c).encode()),
    "an array": lambda c: Response(status=200, body=json.dumps([c]).encode()),
    "null": lambda c: Response(status=200, body=b"null"),
    "a number": lambda c: Response(status=200, body=b'{"challenge": 1}'),
    "nested": lambda c: Response(status=200, body=json.dumps({"data": {"challenge": c}}).encode()),
    "upper case": lambda c: Response(status=200, body=json.dumps({"challenge": c.swapcase()}).encode()),
    "truncated": lambda c: Response(status=200, body=json.dumps({"challenge": c[:-1]}).encode()),
    "a newline": lambda c: Response(status=200, body=json.dumps({"challenge": c + "\n"}).encode()),
    "a redirect": lambda c: Response(status=302, headers=(("Location", "/right"),)),
    "invalid UTF-8": lambda c: Response(status=200, body=b"\xff"),
    "nothing": lambda c: Response(status=200),
}


@pytest.mark.parametrize("answer", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
def test_a_webhook_fails_after_four_wrong_answers(pending, receiver, deliver, answer):
    transport = receiver()
    transport.answer = lambda request: answer(challenge_of(request))

    deliver(transport)

    pending.refresh_from_db()
    assert pending.status == "failed"
    assert pending.status_reason
    assert len({challenge_of(request) for request in transport.requests}) == 4


def test_the_reason_of_a_failed_handshake_does_not_describe_the_certificate(pending, receiver, deliver):
    transport = receiver()
    transport.answer = lambda request: failures.certificate_refused(10)

    deliver(transport)

    pending.refresh_from_db()
    assert (pending.status, pending.status_reason) == ("failed", ReasonText("unreachable_certificate"))
    assert "expired" in DeliveryAttempt.objects.first().message


def test_the_challenge_of_the_previous_attempt_does_not_pass(pending, receiver, deliver):
    transport = receiver()
    challenges = ["none yet"]

    def answer_with_the_last(request):
        challenges.append(challenge_of(request))
        return Response(status=200, body=json.dumps({"challenge": challenges[-2]}).encode())

    transport.answer = answer_with_the_last
    deliver(transport)

    pending.refresh_from_db()
    assert pending.status == "failed"


def test_each_attempt_of_a_handshake_is_logged_with_its_challenge(pending, receiver, deliver):
    transport = receiver()
    transport.answer = lambda request: 500

    deliver(transport)

    sent = [challenge_of(request) for request in transport.requests]
    assert list(DeliveryAttempt.objects.order_by("number").values_list("challenge", flat=True)) == sent


def test_a_failed_handshake_sends_no_retry_notices(pending, receiver, deliver):
    transport = receiver()
    transport.answer = lambda request: 500

    deliver(transport)

    assert deliveries("retry_notice") == []


def test_the_result_of_a_handshake_sends_a_signal(alice, receiver, deliver, django_capture_on_commit_callbacks):
    heard = []
    for signal in (webhook_verified, webhook_disabled):
        signal.connect(
            lambda signal, webhook_id, **kwargs: heard.append((signal, webhook_id)), weak=False, dispatch_uid="heard"
        )
    good = make_webhook(alice, status="pending")
    try:
        with django_capture_on_commit_callbacks(execute=True):
            deliver(receiver())
            bad = make_webhook(alice, status="pending")
            transport = receiver()
            transport.answer = lambda request: 500
            deliver(transport)
    finally:
        for signal in (webhook_verified, webhook_disabled):
            signal.disconnect(dispatch_uid="heard")

    assert heard == [(webhook_verified, good.pk), (webhook_disabled, bad.pk)]


def test_a_new_handshake_supersedes_the_previous_one(pending, receiver, deliver):
    start_verification(pending, actor=PROJECT)

    deliver(receiver())

    assert sorted(delivery.state for delivery in deliveries("verification")) == ["cancelled", "succeeded"]


def test_events_are_held_until_a_new_verification_passes(alice, webhook, receiver, deliver):
    emit_one(alice)
    start_verification(unverified(webhook), actor=PROJECT)
    transport = receiver()

    deliver(transport)

    assert [request.headers[3][1] for request in transport.requests] == [
        "webhook.verification",
        "ppt.generation.failed",
    ]


def test_events_held_for_a_verification_that_fails_are_cancelled(alice, webhook, receiver, deliver):
    emit_one(alice)
    start_verification(unverified(webhook), actor=PROJECT)
    transport = receiver()
    transport.answer = lambda request: 500

    deliver(transport)

    assert [(delivery.state, delivery.state_reason) for delivery in deliveries()] == [("cancelled", "webhook_failed")]


def test_a_disabled_webhook_is_enabled_by_a_handshake(alice, webhook, receiver, deliver):
    webhook.disable("Holidays.")
    with pytest.raises(WebhookStateError, match="Enable it first"):
        start_verification(webhook, actor=PROJECT)

    enable(webhook, actor=PROJECT)
    assert webhook.status == "pending"
    deliver(receiver())

    assert Webhook.objects.get().status == "active"


def test_changes_of_other_fields_than_the_url_need_no_handshake(webhook):
    update_webhook(webhook, description="Another", actor=PROJECT)

    assert (webhook.status, deliveries("verification")) == ("active", [])


def test_an_outdated_instance_cannot_enable_a_webhook(alice, webhook):
    older = Webhook.objects.get()
    webhook.disable("By hand.")

    with pytest.raises(WebhookStateError, match="By hand"):
        start_verification(older, actor=PROJECT)

    assert Webhook.objects.get().status == "disabled"


def test_an_outdated_disabled_instance_can_be_saved(webhook):
    webhook.disable("By hand.")
    older = Webhook.objects.get()
    enable(webhook, actor=PROJECT)
    update_webhook(older, url="http://127.0.0.1:9000/new", actor=PROJECT)

    assert (older.status, older.url) == ("pending", "http://127.0.0.1:9000/new")


def test_enabling_a_webhook_that_is_not_disabled_is_refused(webhook):
    with pytest.raises(WebhookStateError, match="not disabled"):
        enable(webhook, actor=PROJECT)
