"""The trusted certificate authorities: the system's, and an optional additional bundle."""

from __future__ import annotations

import ssl
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import certifi

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


def combined_bundle(extra: str) -> IO[bytes]:
    """Return a temporary PEM file with the system's authorities and those of ``extra``. Closing it deletes it."""
    combined = tempfile.NamedTemporaryFile(prefix="webhooks-ca-", suffix=".pem")  # noqa: SIM115 - closed by the caller
    for path in (system_bundle(), extra):
        combined.write(Path(path).read_bytes() + b"\n")
    combined.flush()
    return combined


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

    It offers HTTP/1.1 (ALPN), as libcurl does, because some receivers otherwise choose HTTP/2.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = HandshakingSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])  # once, because the call is not thread-safe
    context.load_verify_locations(cafile=system_bundle())
    if extra:
        context.load_verify_locations(cafile=extra)
    return context
