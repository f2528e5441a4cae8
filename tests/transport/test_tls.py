"""TLS: trusted certificates and the errors for others."""

from __future__ import annotations

import datetime as dt
import os
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from webhooks_app.transport import BaseTransport, ErrorClass, errors
from webhooks_app.transport.answer import NO_STATUS_LINE
from webhooks_app.transport.tls import tls_context

from .receiver import OK, Peer, Receiver, receiving
from .sending import answers, post, send
from .test_native import in_child

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


def test_a_certificate_of_an_authority_in_the_bundle_is_trusted(sender: BaseTransport, good: Receiver) -> None:
    exchange = send(sender, post(good.url("/ok", HOST)))

    assert exchange.response is not None
    assert exchange.response.status == 200
    assert good.requests[0].header("Host") == f"{HOST}:{good.port}"
    assert set(exchange.timings) == {"dns", "connect", "tls", "first_byte"}


def test_a_certificate_for_an_address_is_trusted(sender: BaseTransport, good: Receiver) -> None:
    assert send(sender, post(good.url("/ok"))).response is not None


def test_a_connection_is_reused_for_the_next_request(sender: BaseTransport, good: Receiver) -> None:
    for _ in range(3):
        send(sender, post(good.url("/ok", HOST)))

    assert [received.connection for received in good.requests[1:]] == [good.requests[1].connection] * 2


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_sends_nothing_on_the_connections_of_its_parent(sender: BaseTransport, good: Receiver) -> None:
    for _ in range(2):
        send(sender, post(good.url("/ok", HOST)))

    assert in_child(lambda: send(sender, post(good.url("/ok", HOST))).response is not None)
    assert send(sender, post(good.url("/ok", HOST))).response is not None

    first, second, child, last = (received.connection for received in good.requests)
    assert first == second == last != child


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
def test_an_untrusted_receiver_gets_no_request(sender: BaseTransport, authority: trustme.CA, case: str) -> None:
    make_context, words = UNTRUSTED[case]

    with receiving(tls=make_context(authority)) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR
    assert words in exchange.error.message
    assert receiver.requests == []


def test_a_certificate_without_the_address_of_the_url_is_refused(sender: BaseTransport, authority: trustme.CA) -> None:
    with receiving(tls=for_another_host(authority)) as receiver:
        exchange = send(sender, post(receiver.url("/ok", "127.0.0.1")))

    assert exchange.error is not None
    assert "is for another address" in exchange.error.message
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


def test_a_connection_closed_during_the_handshake_is_a_tls_error(sender: BaseTransport) -> None:
    with receiving(act=lambda peer: peer.sock.recv(1)) as receiver:
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/ok"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR


def test_an_immediate_reset_is_a_tls_error(sender: BaseTransport) -> None:
    with receiving(act=Peer.reset) as receiver:
        exchanges = [send(sender, post(f"https://{HOST}:{receiver.port}/")) for _ in range(100)]

    assert {exchange.error for exchange in exchanges} == {errors.handshake_failed()}


def test_a_connection_reset_before_the_handshake_is_closed() -> None:
    with receiving(act=Peer.reset) as receiver:
        sock = socket.create_connection(("127.0.0.1", receiver.port))
        select.select([sock], [], [])
    fd = sock.fileno()

    with pytest.raises(ConnectionResetError) as raised:
        tls_context().wrap_socket(sock, server_hostname=HOST)

    assert raised.tb is not None  # refers to the new socket
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_stalled_handshake_is_a_tls_error_at_the_deadline(sender: BaseTransport) -> None:
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


class StraddlingPeer:
    """The receiver's side of TLS. Every piece of data ends in the middle of the next record."""

    def __init__(self, peer: Peer, context: ssl.SSLContext) -> None:
        self._peer = peer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def read_request(self) -> None:
        self._until_done(self._tls.do_handshake)
        self._until_done(lambda: self._tls.read(65536))

    def drip(self, data: bytes, every: float) -> None:
        held = self._outgoing.read()
        for number in range(len(data)):
            self._tls.write(data[number : number + 1])
            record = self._outgoing.read()
            self._peer.send(held + record[:-1])
            held = record[-1:]
            time.sleep(every)

    def _until_done(self, step: Callable[[], object]) -> None:
        while True:
            try:
                step()
            except ssl.SSLWantReadError:
                self._peer.send(self._outgoing.read())
                self._incoming.write(self._peer.sock.recv(65536))
            else:
                return


def test_a_response_in_straddling_records_keeps_the_deadline(sender: BaseTransport, authority: trustme.CA) -> None:
    context = context_of(authority.issue_cert(HOST))

    def straddle(peer: Peer) -> None:
        straddling = StraddlingPeer(peer, context)
        straddling.read_request()
        straddling.drip(b"HTTP/1.1 200 " + b"O" * 500, 0.03)

    with receiving(act=straddle) as receiver:
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/ok", timeout_seconds=1.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TIMEOUT
    assert exchange.duration_seconds < 5


def of_tls_1_2(authority: trustme.CA) -> ssl.SSLContext:
    context = context_of(authority.issue_cert(HOST))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def of_tls_1_3(authority: trustme.CA) -> ssl.SSLContext:
    context = context_of(authority.issue_cert(HOST))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@pytest.mark.parametrize("make_context", [of_tls_1_2, of_tls_1_3])
def test_each_protocol_from_tls_1_2_is_supported(
    sender: BaseTransport, authority: trustme.CA, make_context: Callable[[trustme.CA], ssl.SSLContext]
) -> None:
    with receiving(tls=make_context(authority)) as receiver:
        exchanges = [send(sender, post(receiver.url("/ok", HOST), body=b"x" * 200_000)) for _ in range(3)]

    assert all(exchange.response for exchange in exchanges)
    assert [len(received.body) for received in receiver.requests] == [200_000] * 3


NOT_TLS = {
    "garbage": b"\0\xff" * 500,
    "an-ssh-banner": b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
    "an-http-answer": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "an-alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "a-record-that-is-too-long": b"\x16\x03\x03\xff\xff" + b"\0" * 500,
    "half-a-record": b"\x16\x03\x03\x02\x00\x02\x00",
    "ssl-2": b"\x80\x0b\x04\x00\x01\x00\x02\x00\x00\x00\x00\x00\x00",
}


@pytest.mark.parametrize("row", NOT_TLS)
def test_an_answer_that_is_not_tls_is_a_tls_error(sender: BaseTransport, row: str) -> None:
    with receiving(act=lambda peer: (peer.sock.recv(1), peer.send(NOT_TLS[row]))) as receiver:
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/ok"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR


def test_a_slow_handshake_is_a_tls_error_at_the_deadline(sender: BaseTransport) -> None:
    record = b"\x16\x03\x03\x40\x00\x02" + b"\0" * 16_000

    with receiving(act=lambda peer: peer.drip(record)) as receiver:
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/ok", timeout_seconds=1.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR
    assert 0.9 < exchange.duration_seconds < 5


ENDS_WITHOUT_A_GOODBYE = {
    "in-the-status-line": (b"HTTP/1.1 20", None),
    "in-the-header": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", None),
    "after-the-header": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b""),
    "in-the-body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", b"ok"),
    "in-a-body-without-length": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", b"ok"),
}


@pytest.mark.parametrize("row", ENDS_WITHOUT_A_GOODBYE)
def test_without_close_notify_the_header_decides(sender: BaseTransport, authority: trustme.CA, row: str) -> None:
    said, body = ENDS_WITHOUT_A_GOODBYE[row]

    with receiving({"/end": said}, tls=context_of(authority.issue_cert(HOST))) as receiver:
        exchange = send(sender, post(receiver.url("/end", HOST)))

    if body is None:
        assert exchange.error is not None
        assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR
    else:
        assert exchange.response is not None
        assert (exchange.response.status, exchange.response.body) == (200, body)
    assert receiver.hits("/end") == 1


def test_the_common_name_is_ignored(sender: BaseTransport, authority: trustme.CA) -> None:
    leaf = authority.issue_cert("other.example.com", common_name=HOST)

    with receiving(tls=context_of(leaf)) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert "another host" in exchange.error.message


def test_a_certificate_that_is_not_valid_yet_is_refused(sender: BaseTransport, authority: trustme.CA) -> None:
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    leaf = authority.issue_cert(HOST, not_before=tomorrow, not_after=tomorrow + dt.timedelta(days=1))

    with receiving(tls=context_of(leaf)) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert "not valid yet" in exchange.error.message


def test_a_chain_without_its_intermediate_is_refused(sender: BaseTransport, authority: trustme.CA) -> None:
    leaf = authority.create_child_ca().issue_cert(HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with leaf.private_key_pem.tempfile() as key, leaf.cert_chain_pems[0].tempfile() as certificate:
        context.load_cert_chain(certificate, key)

    with receiving(tls=context) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert "intermediate certificates are missing" in exchange.error.message


@pytest.mark.parametrize("offered", [["h2", "http/1.1"], ["http/1.1"]], ids=str)
def test_http_1_1_is_negotiated(sender: BaseTransport, authority: trustme.CA, offered: list[str]) -> None:
    context = context_of(authority.issue_cert(HOST))
    context.set_alpn_protocols(offered)
    selected: list[str | None] = []

    def answer(peer: Peer) -> None:
        selected.append(peer.sock.selected_alpn_protocol())  # type: ignore[attr-defined]
        peer.read_request()
        peer.send(OK)

    with receiving(tls=context, act=answer) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.response is not None
    assert selected == ["http/1.1"]


def test_a_receiver_that_speaks_only_http_2_is_an_invalid_response(
    sender: BaseTransport, authority: trustme.CA
) -> None:
    context = context_of(authority.issue_cert(HOST))
    context.set_alpn_protocols(["h2"])
    settings = b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00\x03\x00\x00\x00\x80" * 3

    with receiving({"/h2": settings}, tls=context) as receiver:
        exchange = send(sender, post(receiver.url("/h2", HOST)))

    assert exchange.error == errors.invalid_response(NO_STATUS_LINE)


@pytest.mark.parametrize(
    "variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CURL_SSL_BACKEND"]
)
def test_an_authority_from_the_environment_is_not_trusted(
    make: Callable[..., BaseTransport], good: Receiver, bundle: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(bundle.parent if variable.endswith("DIR") else bundle))

    exchange = send(make(resolve=RESOLVE), post(good.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.TLS_ERROR


CONFIGURED = """
import sys
from tests.transport.sending import answers, post, send, transport

sender = transport(sys.argv[1], resolve=answers(hooks_example_com=["127.0.0.1"]))
print(send(sender, post(sys.argv[2])).error.error_class)
sender.close()
"""


def test_an_authority_from_the_configuration_of_openssl_is_not_trusted(
    name: str, good: Receiver, bundle: Path, tmp_path: Path
) -> None:
    configuration = tmp_path / "openssl.cnf"
    configuration.write_text(
        "openssl_conf = start\n[start]\nssl_conf = ssl\n[ssl]\nsystem_default = all\n"
        f"[all]\nVerifyCAFile = {bundle}\nChainCAFile = {bundle}\nMinProtocol = TLSv1\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", CONFIGURED, name, good.url("/ok", HOST)],
        env={**os.environ, "OPENSSL_CONF": str(configuration)},
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert ended.stdout.strip() == "tls_error"
    assert good.requests == []


def test_tls_keys_are_not_logged(
    make: Callable[..., BaseTransport], good: Receiver, bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))

    exchange = send(make(ca_bundle=str(bundle), resolve=RESOLVE), post(good.url("/ok", HOST)))

    assert exchange.response is not None
    assert not (tmp_path / "keys").exists()


def test_a_receiver_that_requires_a_client_certificate_gets_no_request(
    sender: BaseTransport, authority: trustme.CA
) -> None:
    context = context_of(authority.issue_cert(HOST))
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED

    with receiving(tls=context) as receiver:
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class in {ErrorClass.TLS_ERROR, ErrorClass.CONNECTION_ERROR}
    assert receiver.requests == []
