"""TLS: the trusted certificate authorities, the handshake, and the sessions that a new connection may resume."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import certifi

from .connections import READ, WRITE, Sockets, Steps, Wait

SESSION_SECONDS = 3600.0
"""Time after the verification of a certificate in which its session may be resumed."""

MAX_SESSIONS = 1000

SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, BSD
)


def system_bundle() -> str:
    """Return the PEM file of the system's certificate authorities, or certifi's if there is none."""
    compiled_in = ssl.get_default_verify_paths().openssl_cafile  # ignores SSL_CERT_FILE
    return next((path for path in (compiled_in, *SYSTEM_BUNDLES) if Path(path).is_file()), certifi.where())


class HandshakingSocket(ssl.SSLSocket):
    """A connected socket. A reset before the handshake raises OSError in the handshake, which closes the socket.

    Otherwise ``wrap_socket`` itself notices the reset (``getpeername`` raises) and leaves the new socket open.
    """

    def getpeername(self) -> object:
        with suppress(OSError):
            return super().getpeername()
        return None


def tls_context(extra: str = "") -> ssl.SSLContext:
    """Return a client context that verifies names and certificates and requires TLS 1.2 or newer.

    It offers HTTP/1.1 (ALPN), because some receivers otherwise choose HTTP/2.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = HandshakingSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])  # once, because the call is not thread-safe
    context.load_verify_locations(cafile=system_bundle())
    if extra:
        context.load_verify_locations(cafile=extra)
    return context


def secure(
    sock: socket.socket,
    sockets: Sockets,
    context: ssl.SSLContext,
    *,
    host: str,
    session: ssl.SSLSession | None,
    until: float,
) -> Steps[ssl.SSLSocket]:
    """Return the connected socket with TLS, after the handshake with ``host``.

    Raise TimeoutError at ``until``, and another OSError if the handshake fails.
    """
    secured = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False, session=session)
    sockets.replace(sock, secured)
    try:
        yield from _shake_hands(secured, until)
    except BaseException:
        sockets.close(secured)
        raise
    return secured


def _shake_hands(secured: ssl.SSLSocket, until: float) -> Steps[None]:
    while True:
        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            events = READ
        except ssl.SSLWantWriteError:
            events = WRITE
        else:
            return
        if time.monotonic() >= until:
            raise TimeoutError
        yield Wait(until, {secured.fileno(): events})


class Session(NamedTuple):
    """A session, and the time when the receiver's certificate was verified."""

    session: ssl.SSLSession
    verified_at: float


class Sessions:
    """The sessions of one trust store, by origin: the scheme, host and port. Thread-safe.

    A resumed session skips the verification of the certificate. Its successors therefore keep its time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_origin: dict[str, Session] = {}

    def get(self, origin: str) -> Session | None:
        """Return the latest session of the origin, unless its certificate was verified too long ago."""
        found = self._by_origin.get(origin)
        if found is None or self._clock() - found.verified_at >= SESSION_SECONDS:
            return None
        return found

    def keep(self, origin: str, session: ssl.SSLSession, verified_at: float) -> None:
        with self._lock:
            self._by_origin.pop(origin, None)
            if len(self._by_origin) >= MAX_SESSIONS:
                del self._by_origin[next(iter(self._by_origin))]
            self._by_origin[origin] = Session(session, verified_at)

    def forget(self, origin: str) -> None:
        """Drop the session of an origin with which a handshake has failed."""
        with self._lock:
            self._by_origin.pop(origin, None)
