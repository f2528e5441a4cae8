"""All open sockets of a transport, so that a loop can watch them, and a forked process close them."""

from __future__ import annotations

import socket
from collections.abc import Callable


def _ignore(_fd: int) -> None:
    pass


class Sockets:
    """The sockets of connections that are open or being opened. Thread-safe."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self.on_close: Callable[[int], None] = _ignore
        """Called with the file descriptor of each socket before it closes."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, family: int) -> socket.socket:
        """Return a new socket that does not block. Raise OSError if there is none."""
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        self._open.add(sock)
        return sock

    def replace(self, old: socket.socket, new: socket.socket) -> None:
        """Record that another object now owns the file descriptor."""
        self._open.discard(old)
        self._open.add(new)

    def close(self, sock: socket.socket) -> None:
        self._open.discard(sock)
        if (fd := sock.fileno()) >= 0:
            self.on_close(fd)
        sock.close()

    def shut_down(self) -> None:
        """End all connections, which another thread may be waiting for."""
        for sock in list(self._open):
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # SSLSocket.shutdown() could block
            except OSError:
                continue

    def close_inherited(self) -> None:
        """Close the file descriptors in a forked process. Nothing is sent, and the parent's connections continue."""
        for sock in list(self._open):
            sock.close()
        self._open.clear()
