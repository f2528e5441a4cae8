"""The sockets of libcurl's kept connections, to be looked at before one of them is used again."""

from __future__ import annotations

import select

MAX_REMEMBERED = 20_000

LocalAddress = tuple[str, int]
"""The address and port of our end, by which libcurl names a connection that it is about to use."""


class KeptSockets:
    """Knows which kept connections are silent.

    libcurl itself takes a connection that was used less than a second ago for silent and alive. What came on it
    since its last answer would be read as the answer to the next request. A TLS record that came together with the
    answer's last one is beyond our sight: libcurl's TLS reads ahead, and does not say so.
    """

    def __init__(self) -> None:
        self._sockets: dict[LocalAddress, int] = {}

    def remember(self, address: LocalAddress, fd: int) -> None:
        """Note the socket of a connection after a clean answer; -1 for one that libcurl has closed."""
        if len(self._sockets) >= MAX_REMEMBERED:
            self._sockets.clear()
        self._sockets[address] = fd

    def forget(self, address: LocalAddress) -> None:
        """Never take a connection for silent again: its last answer was doubtful."""
        self._sockets.pop(address, None)

    def is_silent(self, address: LocalAddress) -> bool:
        """Tell whether nothing has come since the last answer, not even the connection's end."""
        fd = self._sockets.get(address, -1)
        if fd < 0:
            return False
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return not poll.poll(0)
