"""Resumption of TLS sessions: which connections may skip the verification of a certificate, and how long."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import trustme

from webhooks_app.transport import BaseTransport, tls
from webhooks_app.transport.tls import MAX_SESSIONS, SESSION_SECONDS, Sessions

from .receiver import Peer, receiving
from .sending import answers, post, send

CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
RESOLVE = answers(one_example_com=["127.0.0.1"], two_example_com=["127.0.0.1"])


class ResumingReceiver:
    """A receiver over TLS that records for each connection whether its session was resumed."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.resumed: list[bool] = []
        self.context = context
        self.port = 0

    def act(self, peer: Peer) -> None:
        self.resumed.append(bool(peer.sock.session_reused))  # type: ignore[attr-defined]
        peer.read_request()
        peer.send(CLOSING)

    def url(self, host: str = "one.example.com") -> str:
        return f"https://{host}:{self.port}/"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def resuming(request: pytest.FixtureRequest, authority: trustme.CA) -> Iterator[ResumingReceiver]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = request.param
    authority.issue_cert("one.example.com", "two.example.com").configure_cert(context)
    made = ResumingReceiver(context)
    with receiving(tls=context, act=made.act) as receiver:
        made.port = receiver.port
        yield made


@pytest.fixture
def sender(make: Callable[..., BaseTransport], bundle: str) -> BaseTransport:
    return make(ca_bundle=bundle, resolve=RESOLVE)


def test_a_new_connection_to_the_same_origin_resumes_the_session(
    sender: BaseTransport, resuming: ResumingReceiver
) -> None:
    exchanges = [send(sender, post(resuming.url())) for _ in range(3)]

    assert all(exchange.response for exchange in exchanges)
    assert resuming.resumed == [False, True, True]


@pytest.mark.parametrize("options", [{"fresh_connection": True}, {"probe": "42"}], ids=["fresh", "probe"])
def test_verifications_and_fresh_connections_resume_nothing(
    sender: BaseTransport, resuming: ResumingReceiver, options: dict[str, object]
) -> None:
    send(sender, post(resuming.url()))

    assert send(sender, post(resuming.url(), **options)).response is not None
    assert resuming.resumed == [False, False]


def test_another_host_at_the_same_address_does_not_resume_the_session(
    sender: BaseTransport, resuming: ResumingReceiver
) -> None:
    send(sender, post(resuming.url("one.example.com")))
    send(sender, post(resuming.url("two.example.com")))

    assert resuming.resumed == [False, False]


def test_another_trust_store_does_not_resume_the_session(
    make: Callable[..., BaseTransport], sender: BaseTransport, bundle: str, resuming: ResumingReceiver
) -> None:
    send(sender, post(resuming.url()))
    trusting = send(make(ca_bundle=bundle, resolve=RESOLVE), post(resuming.url()))
    distrusting = send(make(resolve=RESOLVE), post(resuming.url()))

    assert trusting.response is not None
    assert distrusting.error is not None
    assert resuming.resumed == [False, False]


def test_a_certificate_is_verified_again_after_an_hour_of_resumptions(
    sender: BaseTransport, resuming: ResumingReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        send(sender, post(resuming.url()))
    monkeypatch.setattr(tls, "SESSION_SECONDS", 0.0)
    send(sender, post(resuming.url()))

    assert resuming.resumed == [False, True, False]


def test_a_resumed_session_keeps_the_time_of_the_verification() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    sessions.keep("https://one.example.com", Mock(), 0.0)

    now[0] = SESSION_SECONDS - 1
    assert sessions.get("https://one.example.com") is not None
    now[0] = SESSION_SECONDS
    assert sessions.get("https://one.example.com") is None


def test_the_number_of_sessions_is_limited() -> None:
    sessions = Sessions(lambda: 0.0)

    for number in range(MAX_SESSIONS + 1):
        sessions.keep(f"https://host-{number}.example.com", Mock(), 0.0)

    assert sessions.get("https://host-0.example.com") is None
    assert sessions.get(f"https://host-{MAX_SESSIONS}.example.com") is not None


def test_a_failed_handshake_forgets_the_session() -> None:
    sessions = Sessions(lambda: 0.0)
    sessions.keep("https://one.example.com", Mock(), 0.0)

    sessions.forget("https://one.example.com")

    assert sessions.get("https://one.example.com") is None
