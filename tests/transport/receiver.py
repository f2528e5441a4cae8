"""A receiver on a raw socket. The path of a request selects its misbehavior."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import ssl
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

TLS_HANDSHAKE = b"\x16"
ENDING = (4, 9, 11)
"""Linux's states of a TCP connection with an unacknowledged end: FIN_WAIT1, LAST_ACK, CLOSING."""


class Kept(bytes):
    """A response that leaves the connection open. All others close it."""


OK = Kept(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")


@dataclass(frozen=True, kw_only=True)
class Received:
    """One request, as received."""

    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Peer:
    """An accepted connection, as used by a mode."""

    def __init__(self, sock: socket.socket, stopped: threading.Event) -> None:
        self.sock = sock
        self._stopped = stopped
        self.sent = 0

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)
        self.sent += len(data)

    def drip(self, data: bytes, every: float = 0.05) -> None:
        """Send the data repeatedly, one byte at a time, until the other side closes."""
        while not self._stopped.wait(every):
            self.send(data[:1])
            data = data[1:] + data[:1]

    def flood(self, data: bytes) -> None:
        """Send the data repeatedly until the other side closes."""
        while not self._stopped.is_set():
            self.send(data)

    def hold(self) -> None:
        """Send nothing until the other side closes."""
        self.sock.settimeout(120)
        with contextlib.suppress(OSError):
            while self.sock.recv(4096):
                pass

    def read_header(self) -> None:
        """Read the request up to its blank line, without its body."""
        header = b""
        while not header.endswith(b"\r\n\r\n"):
            header += self.sock.recv(1)

    def read_request(self) -> bytes:
        """Read one request and return its body. Raise OSError at the end of the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more()
        header, _, body = data.partition(b"\r\n\r\n")
        length = int(header.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += self._more()
        return body

    def wait_until_delivered(self) -> None:
        """Wait until the other side's system has acknowledged everything sent, including the end."""
        self._wait_for(lambda: not self._unacknowledged() and self._tcp_state() not in ENDING)

    def end(self) -> None:
        """Send close_notify."""
        self.sock.shutdown(socket.SHUT_RDWR)

    def stop_sending(self) -> None:
        """Close one direction of the connection, and wait until the other side closes it."""
        self.sock.shutdown(socket.SHUT_WR)
        self.hold()

    def stop_receiving_and_answer(self, data: bytes) -> None:
        self.sock.shutdown(socket.SHUT_RD)
        self.send(data)

    def reset(self) -> None:
        """Close without close_notify."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _more(self) -> bytes:
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError
        return data

    def _unacknowledged(self) -> int:
        return int.from_bytes(fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def _tcp_state(self) -> int:
        return self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self._stopped.wait(0.001):
                return


Mode = Callable[[Peer], None]


class Receiver:
    """Accept connections, record the requests, and answer each according to ``modes`` for its path.

    With ``act``, call it with every connection instead, and read no requests.
    """

    def __init__(
        self,
        modes: dict[str, Mode | bytes],
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        act: Mode | None = None,
    ) -> None:
        self.requests: list[Received] = []
        self.bytes_sent: dict[str, int] = {}
        self.connections = 0
        self._modes = modes
        self._tls = tls
        self._act = act
        self._stopped = threading.Event()
        self._listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=256
        )
        self.port = self._listener.getsockname()[1]
        self._scheme = "https" if tls else "http"
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, target: str = "/ok", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{target}"

    def hits(self, path: str) -> int:
        return sum(request.target.partition("?")[0] == path for request in self.requests)

    def close(self) -> None:
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True).start()

    def _serve(self, sock: socket.socket, connection: int) -> None:
        sock.settimeout(120)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(sock)
            if self._tls is not None:
                sock = stack.enter_context(self._tls.wrap_socket(sock, server_side=True))
            peer = Peer(sock, self._stopped)
            if self._act is not None:
                self._act(peer)
                return
            if self._tls is None and sock.recv(1, socket.MSG_PEEK) == TLS_HANDSHAKE:
                peer.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                return
            for request in _requests_on(sock, connection):
                self.requests.append(request)
                path = request.target.partition("?")[0]
                try:
                    if not self._answer(path, peer):
                        return
                finally:
                    self.bytes_sent[path] = peer.sent

    def _answer(self, path: str, peer: Peer) -> bool:
        mode = self._modes.get(path, OK)
        if isinstance(mode, bytes):
            peer.send(mode)
            return isinstance(mode, Kept)
        mode(peer)
        return False


def _requests_on(sock: socket.socket, connection: int) -> Iterator[Received]:
    with sock.makefile("rb") as stream:
        while line := stream.readline():
            target = line.split()[1].decode("latin-1")
            headers = []
            while line := stream.readline().rstrip(b"\r\n"):
                name, _, value = line.decode("latin-1").partition(":")
                headers.append((name, value.strip()))
            length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
            yield Received(target=target, headers=tuple(headers), body=stream.read(length), connection=connection)


@contextlib.contextmanager
def receiving(modes: dict[str, Mode | bytes] | None = None, **options: Any) -> Iterator[Receiver]:
    """Run a receiver within the block. The options are those of ``Receiver``."""
    receiver = Receiver(modes or {}, **options)
    try:
        yield receiver
    finally:
        receiver.close()
