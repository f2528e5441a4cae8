"""An open connection to a receiver, TLS included. It never blocks."""

from __future__ import annotations

import socket
import ssl
import time

from .sockets import Sockets

WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """A connection to the receiver at ``address``, for requests to ``origin``."""

    __slots__ = ("_sockets", "address", "fd", "origin", "peer", "requests", "sock", "used_at", "verified_at")

    def __init__(
        self,
        sock: socket.socket,
        sockets: Sockets,
        *,
        origin: str,
        address: str,
        peer: str,
        verified_at: float | None = None,
    ) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.origin = origin
        self.address = address
        self.peer = peer
        """The other end of the connection, unless it is a proxy."""
        self.verified_at = verified_at
        """The time when the certificate was verified, with TLS."""
        self.requests = 0
        """The number of requests sent on the connection."""
        self.used_at = time.monotonic()
        self._sockets = sockets

    @property
    def session(self) -> ssl.SSLSession | None:
        """The TLS session, once the receiver has allowed its resumption."""
        if isinstance(self.sock, ssl.SSLSocket) and (session := self.sock.session) and session.has_ticket:
            return session
        return None

    def send(self, data: memoryview) -> int:
        """Return the number of bytes sent, 0 if the socket isn't ready. Raise OSError on failure."""
        try:
            return self.sock.send(data)
        except WOULD_BLOCK:
            return 0

    def receive(self, size: int) -> bytes | None:
        """Return the available bytes, None without any, or b"" at the end. Raise OSError on failure."""
        try:
            data = self.sock.recv(size)
        except WOULD_BLOCK:
            return None
        self.used_at = time.monotonic()
        return data

    def is_silent(self) -> bool:
        try:
            self.sock.recv(1)  # TLS messages such as session tickets are not data
        except WOULD_BLOCK:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self.fd = -1
        self._sockets.close(self.sock)
