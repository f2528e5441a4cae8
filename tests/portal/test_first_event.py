"""The receivers on the page of a new secret run as shown, and answer the verification and a first event."""

from __future__ import annotations

import os
import re
import sys
import time
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import requests

from webhooks_app.models import Webhook
from webhooks_app.protocol.handshake import challenge_body, refusal_of_answer
from webhooks_app.signatures import signed_headers

from ..support.databases import URL_VARIABLE
from ..support.servers.process import free_port, listens, running
from .conftest import Customer
from .test_webhooks import NEW, text

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]

ROOT = Path(__file__).parents[2]
EVENT = b'{"id":"evt_1","type":"file.deleted","created":"2026-01-31T12:00:00Z","data":{}}'


def shown(page: Any, name: str) -> str:
    found = re.search(rf'<pre [^>]*id="{name}"[^>]*>(.*?)</pre>', text(page), re.DOTALL)
    assert found is not None
    return unescape(found[1])


@pytest.mark.parametrize("secret", ["", 'it\'s a "secret" of $HOME & <more>'], ids=["generated", "own"])
@pytest.mark.parametrize("kind", ["Django", "Python"])
def test_a_receiver_runs_as_shown(amina: Customer, tmp_path: Path, kind: str, secret: str) -> None:
    port = free_port()
    page = amina.post("webhook-new", **{**NEW, "url": f"http://127.0.0.1:{port}/", "secret": secret})
    webhook = Webhook.objects.get(description="Archive")
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    if kind == "Django":
        (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
        variables |= {"DJANGO_SETTINGS_MODULE": "tests.settings", URL_VARIABLE: "sqlite:////no/such/directory/db"}
        command = shown(page, "receiver")
    else:
        (tmp_path / "receiver.py").write_text(shown(page, "receiver-code"))
        command = shown(page, "receiver-command")

    with running(
        ["bash", "-c", f"exec {'env ' if kind == 'Python' else ''}{command}"],
        directory=tmp_path,
        ready=lambda: listens(port),
        env=variables,
    ):
        challenge, event = (
            challenge_body("abc"),
            EVENT,
        )
        verified = _sent(webhook, challenge, "webhook.verification")
        answers = [_sent(webhook, event, "file.deleted"), _sent(webhook, event, "file.deleted", secret="another one")]

    assert refusal_of_answer("abc", verified.content) == ""
    assert answers[0].status_code == 200
    assert answers[1].status_code >= 400


def _sent(webhook: Webhook, body: bytes, event_type: str, secret: str = "") -> requests.Response:
    headers = dict(signed_headers(secret or webhook.secret, int(time.time()), event_type, body))
    return requests.post(webhook.url, body, headers=headers, timeout=10)
