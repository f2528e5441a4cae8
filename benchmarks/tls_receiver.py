"""nginx with TLS for any number of host names, and a trust store with its authority."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

import trustme

from tests.support.servers.process import server_directory
from webhooks_app.transport.tls import system_bundle

from . import receivers

DOMAIN = "receivers.test"
TLS = Template("""
        ssl_certificate $directory/receiver.pem;
        ssl_certificate_key $directory/receiver.pem;
        ssl_session_cache off;
        ssl_session_tickets off;
""")


@dataclass(frozen=True, slots=True)
class TlsReceiver:
    """A receiver with certificates for 127.0.0.1 and for all of its host names.

    ``authority`` is a PEM file. ``bundle`` also has the system's authorities, for clients that support only one file.
    Sessions are not resumed, so each new connection has a full handshake.
    """

    receiver: receivers.Receiver
    authority: Path
    bundle: Path

    def url(self, name: str) -> str:
        return f"{self.receiver.url_at(f'{name}.{DOMAIN}')}/"


@contextmanager
def running() -> Generator[TlsReceiver]:
    with server_directory("tls") as directory:
        directory.chmod(0o711)
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(directory / "authority.pem")
        certificate = authority.issue_cert(f"*.{DOMAIN}", "127.0.0.1", key_type=trustme.KeyType.ECDSA)
        certificate.private_key_and_cert_chain_pem.write_to_path(directory / "receiver.pem")
        system = Path(system_bundle()).read_bytes()
        (directory / "bundle.pem").write_bytes(system + b"\n" + (directory / "authority.pem").read_bytes())
        with receivers.nginx(tls=TLS.substitute(directory=directory)) as receiver:
            yield TlsReceiver(receiver, directory / "authority.pem", directory / "bundle.pem")
