"""TLS: whom a transport believes, and what it says otherwise."""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from webhooks_app.transport import BaseTransport, ErrorClass

from .receiver import Peer, Receiver, receiving
from .sending import answers, post, send

HOST = "hooks.example.com"
RESOLVE = answers(hooks_example_com=["127.0.0.1"], other_example_com=["127.0.0.1"])
YESTERDAY = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def bundle(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
def sender(make: Callable[..., BaseTransport], bundle: Path) -> BaseTransport:
    return make(ca_bundle=str(bundle), resolve=RESOLVE)


def context_of(leaf: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    return context


@pytest.fixture
def good(authority: trustme.CA) -> Iterator[Receiver]:
    with receiving(tls=context_of(authority.issue_cert(HOST, "127.0.0.1"))) as receiver:
        yield receiver


def test_a_certificate_of_an_authority_in_the_bundle_is_believed(sender: BaseTransport, good: Receiver) -> None:
    exchange = send(sender, post(good.url("/ok", HOST)))

    assert exchange.response is not None
    assert exchange.response.status == 200
    assert good.requests[0].header("Host") == f"{HOST}:{good.port}"
    assert set(exchange.timings) == {"dns", "connect", "tls", "first_byte"}


def test_a_certificate_for_an_address_is_believed(sender: BaseTransport, good: Receiver) -> None:
    assert send(sender, post(good.url("/ok"))).response is not None


def test_a_kept_connection_serves_the_next_request(sender: BaseTransport, good: Receiver) -> None:
    for _ in range(3):
        send(sender, post(good.url("/ok", HOST)))

    assert [received.connection for received in good.requests[1:]] == [good.requests[1].connection] * 2


def expired(authority: trustme.CA) -> ssl.SSLContext:
    return context_of(authority.issue_cert(HOST, not_after=YESTERDAY))


def for_another_host(authority: trustme.CA) -> ssl.SSLContext:
    return context_of(authority.issue_cert("other.example.com"))


def from_an_unknown_authority(_: trustme.CA) -> ssl.SSLContext:
    return context_of(trustme.CA().issue_cert(HOST))


def with_an_old_protocol(authority: trustme.CA) -> ssl.SSLContext:
    context = context_of(authority.issue_cert(HOST))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    return context


UNTRUSTED = {
    "expired": (expired, "expired"),
    "wrong-host": (for_another_host, "another host"),
    "unknown-authority": (from_an_unknown_authority, "issuer"),
    "old-protocol": (with_an_old_protocol, "TLS 1.2"),
}


@pytest.mark.parametrize("case", UNTRUSTED)
def test_what_cannot_be_trusted_gets_no_request(sender: BaseTransport, authority: trustme.CA, case: str) -> None:
    make_context, words = UNTRUSTED[case]

    with receiving(tls=make_context(authority)) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR
    assert words in exchange.error.message
    assert receiver.requests == []


def test_a_self_signed_certificate_is_a_tls_error(make: Callable[..., BaseTransport], good: Receiver) -> None:
    exchange = send(make(resolve=RESOLVE), post(good.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR
    assert good.requests == []


def test_plain_http_on_the_port_is_a_tls_error_without_downgrade(sender: BaseTransport) -> None:
    with receiving() as plain:
        exchange = send(sender, post(f"https://{HOST}:{plain.port}/ok"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR
    assert plain.hits("/ok") == 0


def test_a_receiver_that_closes_in_the_handshake_is_a_tls_error(sender: BaseTransport) -> None:
    with receiving(act=lambda peer: peer.sock.recv(1)) as receiver:
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/ok"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR


def test_a_stalled_handshake_is_a_tls_error_on_time(sender: BaseTransport) -> None:
    with receiving(act=Peer.hold) as receiver:
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/ok", timeout_seconds=1.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR
    assert 0.9 < exchange.duration_seconds < 5


def test_a_response_over_tls_keeps_the_deadline(sender: BaseTransport, authority: trustme.CA) -> None:
    def drip(peer: Peer) -> None:
        peer.drip(b"HTTP/1.1 200 " + b"O" * 1000)

    with receiving({"/drip": drip}, tls=context_of(authority.issue_cert(HOST))) as receiver:
        exchange = send(sender, post(receiver.url("/drip", HOST), timeout_seconds=1.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TIMEOUT
    assert exchange.duration_seconds < 5
