"""Logs of deliveries at level DEBUG, with all libraries."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest
from django.db import connections

from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery

from ..support.rows import emit_one, make_webhook
from ..transport.receiver import OK, receiving

pytestmark = pytest.mark.django_db

SECRET, HEADER, PASSWORD = "a secret of the webhook", "the value of a header", "the password of a user"


@pytest.mark.parametrize("transport", ["native", "requests"])
def test_no_record_of_a_delivery_has_a_secret(
    alice: Any, settings: Any, transport: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOKS_TRANSPORT = transport
    monkeypatch.setattr(
        connections["default"], "force_debug_cursor", True
    )  # so that statements are logged with their values
    for logger in ("", "django", "urllib3", "webhooks_app"):
        caplog.set_level(logging.DEBUG, logger)

    with receiving(
        {"/fails": b"HTTP/1.1 500 Error\r\n\r\n", "/ok": OK, "/resets": lambda peer: peer.reset()}
    ) as receiver:
        for path in ("/ok", "/fails", "/resets"):
            credentials = {"headers": {"X-Key": HEADER}, "basic_auth": ("me", PASSWORD)}
            make_webhook(alice, url=receiver.url(path), secret=SECRET, retry_policy="", **credentials)
        emit_one(alice)
        Engine().run_until_idle(await_retries=False)
        sent = receiver.requests[0].header("Authorization")

    coded = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert sent == f"Basic {coded}"
    assert Delivery.objects.filter(state="succeeded").exists()
    logs = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "django.db.backends" in logs
    assert [value for value in (SECRET, HEADER, PASSWORD, coded) if value in logs] == []
