"""Selection of a transport by name."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from webhooks_app.transport import BaseTransport, make_transport
from webhooks_app.transport.memory import MemoryTransport


class ToyTransport(MemoryTransport):
    """A custom transport of a host project."""

    name = "toy"


class NamelessTransport(MemoryTransport):
    name = BaseTransport.name


def test_a_transport_without_a_name_is_made() -> None:
    made = make_transport("tests.transport.test_selection.NamelessTransport")
    made.close()

    assert made.name == ""


def test_the_default_is_native(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "webhooks_app.transport"):
        made = make_transport()
    made.close()

    assert made.name == "native"
    assert caplog.messages == ["Webhooks are sent with the transport 'native'."]


KEYS_ARE_LOGGED = """
import sys, trustme, ssl, threading
from ipaddress import ip_network
from pathlib import Path
from tests.transport.receiver import receiving
from tests.transport.sending import answers, post, send, transport

name, folder = sys.argv[1], Path(sys.argv[2])
authority = trustme.CA()
authority.cert_pem.write_to_path(str(folder / "ca.pem"))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
authority.issue_cert("hooks.example.com").configure_cert(context)
with receiving(tls=context) as receiver:
    sender = transport(name, ca_bundle=str(folder / "ca.pem"), resolve=answers(hooks_example_com=["127.0.0.1"]))
    exchange = send(sender, post(receiver.url("/ok", "hooks.example.com")))
    sender.close()
assert exchange.response is not None, exchange.error
"""


def test_tls_keys_are_not_written_to_the_sslkeylogfile(name: str, tmp_path: Path) -> None:
    log = tmp_path / "keys.log"

    subprocess.run(
        [sys.executable, "-c", KEYS_ARE_LOGGED, name, str(tmp_path)],
        check=True,
        env={**os.environ, "SSLKEYLOGFILE": str(log)},
        timeout=60,
    )

    assert not log.exists() or not log.read_text()


@pytest.mark.parametrize("name", ["native", "memory", "requests", f"{__name__}.ToyTransport"])
def test_a_transport_is_selected_by_name_or_path(name: str) -> None:
    made = make_transport(name)
    made.close()

    assert isinstance(made, BaseTransport)
    assert made.name in {"native", "memory", "requests", "toy"}


@pytest.mark.parametrize(
    "name", ["", "carrier-pigeon", "curl", "auto", "no.such.Module", "json.JSONDecoder", "json.no_such_name"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="dotted path of a transport"):
        make_transport(name)
