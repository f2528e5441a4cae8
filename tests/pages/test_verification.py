"""The code on pages is the code of the documentation, which its tests run."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from webhooks_app.conf import known_signatures
from webhooks_app.pages.verification import LANGUAGES, code_in, receiver_for, samples_for
from webhooks_app.signatures import NativeSignature, signed_headers

from ..docs.test_vectors import answers_in_go, answers_in_ruby, code_under, expected
from ..support.missing import skip_without
from ..support.servers.process import free_port, listens, running
from ..toys.signature import ChecksumSignature

HEADINGS = {"python": "Python", "javascript": "JavaScript", "php": "PHP", "go": "Go", "ruby": "Ruby"}


class OwnNames(NativeSignature):
    name = "own"
    signature_header = "Acme-Signature"
    header_names = ("Acme-Signature", "Acme-Timestamp", "Acme-Event", "Acme-Before", "Acme-After")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_code_is_that_of_the_documentation(language: str) -> None:
    assert code_in(language, NativeSignature()) == code_under(HEADINGS[language])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_code_has_the_headers_of_the_scheme(language: str) -> None:
    code = code_in(language, OwnNames()).lower().replace("_", "-")

    assert "acme-signature" in code
    assert "acme-before" in code
    assert "acme-after" in code
    assert "acme-timestamp" in code
    assert "x-webhook" not in code


def test_the_code_is_for_a_secret_if_there_is_one() -> None:
    schemes = known_signatures()
    public, secret, native = schemes["standard-ed25519"], schemes["standard"], schemes["native"]

    assert [each.name for each in samples_for([public])] == ["python", "javascript"]
    assert [each.name for each in samples_for([public, native])] == list(LANGUAGES)
    assert "webhook-id" in samples_for([secret, native])[0].code
    assert receiver_for([secret]) == ""
    assert samples_for([ChecksumSignature()]) == []


SERVERS = {
    "python": ("receiver.py", [sys.executable, "receiver.py"]),
    "javascript": ("receiver.mjs", ["node", "receiver.mjs"]),
    "php": ("receiver.php", ["php", "-S", "127.0.0.1:{port}", "receiver.php"]),
}
"""The languages whose code is a server. The code of the others is a function."""


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("language", SERVERS)
def test_the_code_for_other_headers_verifies_with_them(language: str, tmp_path: Path) -> None:
    name, command = SERVERS[language]
    if shutil.which(command[0]) is None:
        skip_without(f"{command[0]} was not found")
    port, body = free_port(), b'{"id":"evt_1","type":"file.deleted","created":"2026-01-01T00:00:00Z","data":{}}'
    (tmp_path / name).write_text(code_in(language, OwnNames()))
    command = [part.format(port=port) for part in command]
    environment = {**os.environ, "WEBHOOK_SECRET": "the secret of a test", "PORT": str(port)}

    def answer(own_names: bool, secret: str = "the secret of a test") -> int:
        headers = dict(signed_headers(secret, int(time.time()), "file.deleted", body))
        names = dict(zip(NativeSignature.header_names, OwnNames.header_names, strict=True)) if own_names else {}
        headers = {names.get(each, each): value for each, value in headers.items()}
        return requests.post(f"http://127.0.0.1:{port}/", body, headers=headers, timeout=10).status_code

    with running(command, directory=tmp_path, ready=lambda: listens(port), env=environment):
        answers = [answer(own_names=True), answer(own_names=True, secret="another secret"), answer(own_names=False)]

    assert answers[0] == 200
    assert min(answers[1:]) >= 400


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("language", "answers"), [("ruby", answers_in_ruby), ("go", answers_in_go)])
def test_the_function_for_other_headers_reads_them(
    language: str, answers: Callable[..., list[bool]], tmp_path: Path
) -> None:
    signature, timestamp, _event, previous, following = OwnNames.header_names

    code = code_in(language, OwnNames())

    assert answers(tmp_path, code, (timestamp, signature, previous, following)) == expected()
