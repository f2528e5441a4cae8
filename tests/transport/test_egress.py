"""Egress: the proxies of the environment are never used, the configured proxy always."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from webhooks_app.transport import BaseTransport, ErrorClass, TransportError, errors

from .receiver import Mode, Peer, Receiver, receiving
from .sending import answers, post, send

HOST = "hooks.example.com"
RESOLVE = answers(hooks_example_com=["127.0.0.1"], private_example_com=["10.0.0.1"])


class ConnectProxy:
    """A proxy that supports only CONNECT, and records its requests."""

    def __init__(self, *, refuses: bool = False, dead: str = "", more: bytes = b"") -> None:
        """``more`` follows the header of the answer, in the same packet."""
        self.asked: list[bytes] = []
        self._more = more
        self._refuses = refuses
        self._dead = dead

    def serve(self, peer: Peer) -> None:
        header = b""
        while b"\r\n\r\n" not in header:
            header += peer.sock.recv(1)
        self.asked.append(header)
        host, _, port = header.split()[1].decode().rpartition(":")
        if self._refuses or host == self._dead:
            peer.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection((host, int(port))) as receiver:
            peer.send(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n" + self._more)
            back = threading.Thread(target=_copy, args=(receiver, peer.sock), daemon=True)
            back.start()
            _copy(peer.sock, receiver)
            back.join(10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.mark.parametrize(
    "variable", ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
)
def test_a_proxy_of_the_environment_is_not_used(
    make: Callable[..., BaseTransport], receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with receiving() as proxy:
        monkeypatch.setenv(variable, proxy.url("", "127.0.0.1"))
        exchange = send(make(), post(receiver.url()))

    assert exchange.response is not None
    assert receiver.hits("/ok") == 1
    assert proxy.connections == 0


def test_a_netrc_is_not_read(
    make: Callable[..., BaseTransport], receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (".netrc", "_netrc"):
        (tmp_path / name).write_text("machine 127.0.0.1 login me password secret\ndefault login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))

    send(make(), post(receiver.url()))

    assert receiver.requests[0].header("Authorization") is None


def test_the_configured_proxy_gets_the_checked_address(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    proxy = ConnectProxy()

    with receiving(act=proxy.serve) as listening:
        exchange = send(make(proxy=listening.url(""), resolve=RESOLVE), post(receiver.url("/ok?a=%2f", HOST)))

    assert exchange.response is not None
    assert exchange.response.status == 200
    assert "X-Proxy" not in dict(exchange.response.headers)
    assert proxy.asked[0].startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % receiver.port)
    assert receiver.requests[0].target == "/ok?a=%2f"
    assert receiver.requests[0].header("Host") == f"{HOST}:{receiver.port}"


def test_no_proxy_in_the_environment_does_not_affect_the_configured_proxy(
    make: Callable[..., BaseTransport], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = ConnectProxy()
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    with receiving(act=proxy.serve) as listening:
        send(make(proxy=listening.url("")), post(receiver.url()))

    assert len(proxy.asked) == 1


def test_tls_connects_to_the_receiver_through_the_proxy(make: Callable[..., BaseTransport], tmp_path: Path) -> None:
    authority, proxy = trustme.CA(), ConnectProxy()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)

    with receiving(tls=context) as receiver, receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), ca_bundle=str(tmp_path / "ca.pem"), resolve=RESOLVE)
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.response is not None
    assert len(proxy.asked) == 1


def test_the_proxy_gets_its_credentials_and_the_receiver_does_not(
    make: Callable[..., BaseTransport], receiver: Receiver
) -> None:
    proxy = ConnectProxy()

    with receiving(act=proxy.serve) as listening:
        send(make(proxy=f"http://me:p%40ss@127.0.0.1:{listening.port}"), post(receiver.url()))

    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in proxy.asked[0]
    assert receiver.requests[0].header("Proxy-Authorization") is None


def test_the_proxy_never_gets_a_refused_address(make: Callable[..., BaseTransport]) -> None:
    proxy = ConnectProxy()

    with receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), resolve=RESOLVE)
        exchange = send(sender, post("https://private.example.com/hook"))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.ADDRESS_REFUSED
    assert proxy.asked == []


def test_the_proxy_gets_the_second_address_if_the_first_fails(
    make: Callable[..., BaseTransport], receiver: Receiver
) -> None:
    proxy = ConnectProxy(dead="127.0.0.9")

    with receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), resolve=answers(hooks_example_com=["127.0.0.9", "127.0.0.1"]))
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.response is not None
    assert [header.split()[1].partition(b":")[0] for header in proxy.asked] == [b"127.0.0.9", b"127.0.0.1"]


def test_a_tunnel_is_not_reused_for_another_address(make: Callable[..., BaseTransport]) -> None:
    proxy = ConnectProxy()
    looked = iter([["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"], ["127.0.0.2"]])

    with receiving(host="0.0.0.0") as receiver, receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), resolve=lambda _host, _port: next(looked))
        for _ in range(4):
            send(sender, post(receiver.url("/ok", HOST)))

    assert proxy.asked[-1].startswith(b"CONNECT 127.0.0.2:")
    assert receiver.hits("/ok") == 4


def test_a_proxy_that_refuses_is_a_connection_error(make: Callable[..., BaseTransport], receiver: Receiver) -> None:
    proxy = ConnectProxy(refuses=True)

    with receiving(act=proxy.serve) as listening:
        exchange = send(make(proxy=listening.url("")), post(receiver.url()))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR
    assert "proxy" in exchange.error.message
    assert receiver.connections == 0


def test_bytes_of_a_proxy_before_the_request_are_an_error(
    make: Callable[..., BaseTransport], receiver: Receiver
) -> None:
    proxy = ConnectProxy(more=b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with receiving(act=proxy.serve) as listening:
        exchange = send(make(proxy=listening.url("")), post(receiver.url()))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR
    assert "proxy" in exchange.error.message
    assert receiver.requests == []


@pytest.mark.parametrize("more", [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], ids=["byte", "answer"])
def test_bytes_of_a_proxy_before_tls_are_an_error(
    make: Callable[..., BaseTransport], tmp_path: Path, more: bytes
) -> None:
    authority, proxy = trustme.CA(), ConnectProxy(more=more)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)

    with receiving(tls=context) as receiver, receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), ca_bundle=str(tmp_path / "ca.pem"), resolve=RESOLVE)
        exchange = send(sender, post(receiver.url("/ok", HOST)))

    assert exchange.error is not None
    assert exchange.error.error_class in (ErrorClass.CONNECTION_ERROR, ErrorClass.TLS_ERROR)
    assert receiver.requests == []


def test_a_proxy_that_never_answers_is_a_connection_error_on_time(
    make: Callable[..., BaseTransport], receiver: Receiver
) -> None:
    with receiving(act=Peer.hold) as listening:
        exchange = send(make(proxy=listening.url("")), post(receiver.url(), timeout_seconds=1.0))

    assert exchange.error is not None
    assert exchange.error.error_class is ErrorClass.CONNECTION_ERROR
    assert 0.9 < exchange.duration_seconds < 5


def test_a_handshake_through_the_proxy_may_use_all_of_the_time(make: Callable[..., BaseTransport]) -> None:
    proxy, two_addresses = ConnectProxy(), answers(hooks_example_com=["127.0.0.1", "127.0.0.2"])

    with receiving(act=Peer.hold, host="0.0.0.0") as receiver, receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), resolve=two_addresses)
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/", timeout_seconds=1.0))

    assert 0.9 < exchange.duration_seconds < 5


@pytest.mark.parametrize(
    ("mode", "error"),
    [(Peer.hold, errors.handshake_timed_out(1.0)), (Peer.reset, errors.handshake_failed())],
    ids=["stalled", "reset"],
)
def test_the_receiver_is_at_fault_once_the_tunnel_is_open(
    make: Callable[..., BaseTransport], mode: Mode, error: TransportError
) -> None:
    proxy, two_addresses = ConnectProxy(), answers(hooks_example_com=["127.0.0.1", "127.0.0.2"])

    with receiving(act=mode, host="0.0.0.0") as receiver, receiving(act=proxy.serve) as listening:
        sender = make(proxy=listening.url(""), resolve=two_addresses)
        exchange = send(sender, post(f"https://{HOST}:{receiver.port}/", timeout_seconds=1.0))

    assert exchange.error == error
    assert {header.split()[1] for header in proxy.asked} == {b"127.0.0.1:%d" % receiver.port}


@pytest.mark.parametrize("url", ["https://proxy:3128", "socks5://proxy:1080", "proxy:3128", "http://proxy", "http://"])
def test_a_proxy_of_another_kind_is_refused_at_startup(make: Callable[..., BaseTransport], url: str) -> None:
    with pytest.raises(ValueError, match="http://\\[user:password@\\]host:port"):
        make(proxy=url)
