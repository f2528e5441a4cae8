"""``configure_webhook``"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError

from webhooks_app.encryption import decrypt
from webhooks_app.models import AuditEntry, Webhook

from .conftest import Output

Run = Callable[..., Output]


def test_the_choices_are_shown(run: Run, webhook: Webhook) -> None:
    shown = json.loads(run("configure_webhook", webhook.pk).stdout)

    assert shown == {
        "signatures": ["native"],
        "public_keys": {},
        "retry_policy": "",
        "accepted_statuses": "200",
        "order": "none",
        "headers": {},
    }
    assert not AuditEntry.objects.filter(action="webhook.changed").exists()


def test_every_choice_is_changed_and_values_come_from_standard_input(
    run: Run, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("acme\npassword\n"))
    choices: list[Any] = ["--signatures", "native", "standard-ed25519", "--retry-policy", "extended"]

    shown = json.loads(
        run(
            "configure_webhook",
            webhook.pk,
            *choices,
            *("--accepted-statuses", "2xx", "--order", "key"),
            *("--headers", "X-Tenant"),
        ).stdout
    )
    run("configure_webhook", webhook.pk, "--basic-auth", "user")

    assert (shown["retry_policy"], shown["accepted_statuses"], shown["order"]) == ("extended", "2xx", "key")
    assert list(shown["public_keys"].values()) == ["standard-ed25519"]
    assert shown["headers"] == {"X-Tenant": "********"}
    values = [decrypt(token) for _, token in Webhook.objects.get().encrypted_headers]
    assert values == ["acme", "Basic dXNlcjpwYXNzd29yZA=="]


def test_a_choice_that_cannot_be_is_refused(run: Run, webhook: Webhook) -> None:
    with pytest.raises(CommandError, match="unknown retry policy"):
        run("configure_webhook", webhook.pk, "--retry-policy", "never mind")
