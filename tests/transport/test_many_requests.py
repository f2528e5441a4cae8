"""1,500 TLS requests are open at once, wherever a worker runs its engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from .holding import PLACES

REQUESTS = 1500
COMMAND = [sys.executable, "-W", "error", "-m", "tests.transport.holding"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
def receiver(authority: trustme.CA, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path / "receiver.pem"
    issued = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    with subprocess.Popen(
        [*COMMAND, "receive", str(path), str(REQUESTS)], stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("place", PLACES)
def test_many_requests_with_tls_are_open_at_once(receiver: subprocess.Popen[str], bundle: Path, place: str) -> None:
    assert receiver.stdout is not None
    port = receiver.stdout.readline().strip()

    ended = subprocess.run(
        [*COMMAND, place, str(bundle), port, str(REQUESTS)], check=False, capture_output=True, text=True, timeout=250
    )

    assert (ended.stdout.strip(), ended.stderr) == (str(REQUESTS), "")
