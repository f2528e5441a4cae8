"""Receivers with a broken keep-alive, and handshakes with long answers, from the row to the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.retries import QUICK
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery, DeliveryAttempt, Webhook

from ..support.rows import emit_one, make_webhook
from ..transport.receiver import OK, Peer, receiving

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["native", "requests"], autouse=True)
def transport_name(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.WEBHOOKS_TRANSPORT = request.param


class BreaksKeptConnections:
    """A receiver that announces keep-alive in its first response, and resets the connection at the second request."""

    def __call__(self, peer: Peer) -> None:
        peer.read_request()
        peer.send(OK)
        peer.read_request()
        peer.reset()


def test_a_receiver_with_broken_keep_alive_gets_every_event(alice: Any, settings: Any) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = [QUICK]

    with receiving(act=BreaksKeptConnections()) as receiver:
        make_webhook(alice, url=receiver.url("/hook"), max_in_flight=1)
        for _ in range(10):
            emit_one(alice)
        Engine().run_until_idle()

    assert set(Delivery.objects.filter(kind="event").values_list("state", flat=True)) == {"succeeded"}
    failed = DeliveryAttempt.objects.exclude(result="succeeded")
    assert set(failed.values_list("number", flat=True)) <= {1}
    assert all("kept open after an earlier request" in message for message in failed.values_list("message", flat=True))


def test_a_correct_challenge_in_a_long_answer_verifies(alice: Any) -> None:
    def echo(peer: Peer) -> None:
        challenge = json.loads(peer.read_request())["data"]["challenge"]
        body = json.dumps({"padding": "x" * 40_000, "challenge": challenge}).encode()
        peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with receiving(act=echo) as receiver:
        webhook = make_webhook(alice, url=receiver.url("/hook"), status="pending")
        Delivery.objects.queue(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
        Engine().run_until_idle()

    assert Webhook.objects.get().status == "active"
