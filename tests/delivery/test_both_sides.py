"""The request in the log of an attempt is the one received, with the times of its stages."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.support.retries import NEVER
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import DeliveryAttempt
from webhooks_app.transport import make_transport

from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class RawReceiver:
    """A receiver that answers with 200 and stores the received bytes, one connection at a time."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                self.got.append(self._read(sock))
                sock.sendall(ANSWER)

    def _read(self, sock: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += sock.recv(65536)
        header, _, body = data.partition(b"\r\n\r\n")
        length = int(header.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += sock.recv(65536)
        return header + b"\r\n\r\n" + body


@pytest.fixture
def raw_receiver() -> Iterator[RawReceiver]:
    receiver = RawReceiver()
    yield receiver
    receiver.close()


@pytest.fixture(params=["requests", "native"])
def deliver_by(request):
    """Deliver with a real transport until nothing is left to do."""
    return lambda: Engine(transport=make_transport(request.param, transport_options())).run_until_idle()


def test_the_log_has_the_received_request(alice, raw_receiver, deliver_by):
    webhook = make_webhook(alice, url=f"http://127.0.0.1:{raw_receiver.port}/hook%2F?a=b")
    webhook.rotate_secret()
    emit_one(alice)

    deliver_by()

    attempt = DeliveryAttempt.objects.get()
    assert attempt.signatures.count("sha256=") == 2
    assert raw_receiver.got == [attempt.request_header.encode() + b"\r\n" + attempt.request_body]


def test_the_log_of_a_handshake_has_the_received_challenge(alice, raw_receiver, deliver_by, settings):
    settings.WEBHOOKS_RETRY_POLICIES = [NEVER]
    make_webhook(alice, status="pending", url=f"http://127.0.0.1:{raw_receiver.port}/hook")

    deliver_by()

    attempt = DeliveryAttempt.objects.get()
    assert raw_receiver.got == [attempt.request_header.encode() + b"\r\n" + attempt.request_body]


def test_the_log_has_the_time_of_each_stage(alice, raw_receiver, deliver_by):
    make_webhook(alice, url=f"http://127.0.0.1:{raw_receiver.port}/hook")
    emit_one(alice)

    deliver_by()

    attempt = DeliveryAttempt.objects.get()
    assert {"connect", "first_byte"} <= set(attempt.timings) <= {"dns", "connect", "tls", "first_byte"}
    assert 0 <= attempt.timings["connect"] <= attempt.timings["first_byte"] <= attempt.duration_ms


def fail(*args, **kwargs):
    raise RuntimeError("no luck")


def test_an_unsent_attempt_shows_no_request(alice, webhook, receiver, deliver, monkeypatch):
    monkeypatch.setattr("webhooks_app.delivery.engine.request_for", fail)
    emit_one(alice)

    deliver(receiver(200))

    assert {attempt.result for attempt in DeliveryAttempt.objects.all()} == {"internal_error"}
    assert {attempt.request_header for attempt in DeliveryAttempt.objects.all()} == {""}


def test_an_error_of_all_deliveries_to_a_webhook_is_logged_once(alice, webhook, receiver, deliver, monkeypatch, caplog):
    monkeypatch.setattr("webhooks_app.delivery.engine.request_for", fail)
    for _ in range(3):
        emit_one(alice)

    deliver(receiver(200))

    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert f"to webhook {webhook.pk} could not be sent or judged" in record.getMessage()
    assert DeliveryAttempt.objects.filter(delivery__kind="event").count() == 12
