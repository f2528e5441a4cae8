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
        "recovery": "manual",
        "filter": None,
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


def test_an_invalid_choice_is_refused(run: Run, webhook: Webhook) -> None:
    with pytest.raises(CommandError, match="unknown retry policy"):
        run("configure_webhook", webhook.pk, "--retry-policy", "never mind")


@pytest.mark.parametrize("names", [["X-A", "X-A"], ["X-A", "X-B", "x-a"]], ids=["same case", "other case"])
def test_a_header_named_twice_is_refused_before_its_values_are_read(
    run: Run, webhook: Webhook, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\nthree\n"))

    with pytest.raises(CommandError, match=f"'{names[-1]}' is given twice; names are case-insensitive"):
        run("configure_webhook", webhook.pk, "--headers", *names)

    assert Webhook.objects.get().headers == {}


@pytest.mark.parametrize(
    "option",
    [
        pytest.param(["--order", "webhook"], id="order"),
        pytest.param(["--retry-policy", ""], id="default policy"),
        pytest.param(["--headers"], id="no headers"),
        pytest.param(["--basic-auth", "amina"], id="credentials"),
        pytest.param(["--filter", "{}"], id="filter"),
        pytest.param(["--clear-filter"], id="no filter"),
    ],
)
def test_the_offered_values_are_not_combined_with_a_change(run: Run, db: None, option: list[str]) -> None:
    with pytest.raises(CommandError, match=f"--offered changes nothing. Remove {option[0]}, or name a webhook"):
        run("configure_webhook", "--offered", *option)


def test_a_filter_is_set_shown_and_cleared(run: Run, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"file_id": "file_2"}'))
    set_to = json.loads(
        run("configure_webhook", webhook.pk, "--filter", '{"file_id": {"$startsWith": "file_"}}').stdout
    )
    read_from_input = json.loads(run("configure_webhook", webhook.pk, "--filter", "-").stdout)
    cleared = json.loads(run("configure_webhook", webhook.pk, "--clear-filter").stdout)

    assert set_to["filter"] == {"file_id": {"$startsWith": "file_"}}
    assert (read_from_input["filter"], cleared["filter"]) == ({"file_id": "file_2"}, None)
    assert AuditEntry.objects.filter(action="webhook.changed", via="command").count() == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(["--filter", "{"], "The filter is not JSON", id="no JSON"),
        pytest.param(["--filter", '{"fileid": "x"}'], "fileid: is not a field of file.deleted", id="unknown field"),
        pytest.param(["--filter", "@nowhere.json"], "nowhere.json cannot be read", id="no file"),
        pytest.param(["--filter", "-", "--headers", "X-Tenant"], "Read the filter from a file", id="two inputs"),
        pytest.param(["--filter", "{}", "--clear-filter"], "not allowed with", id="set and cleared"),
    ],
)
def test_an_invalid_filter_is_refused(run: Run, webhook: Webhook, options: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run("configure_webhook", webhook.pk, *options)

    webhook.refresh_from_db()
    assert webhook.filter is None


def test_the_offered_values_are_explained(run: Run, db: None, settings: Any) -> None:
    settings.WEBHOOKS_RETRY_POLICIES = ["extended"]

    offered = json.loads(run("configure_webhook", "--offered").stdout)

    assert [each["name"] for each in offered["signatures"]] == ["native", "standard", "standard-ed25519"]
    (policy,) = offered["retry_policies"]
    assert (policy["max_attempts"], policy["delays_seconds"][:2], policy["is_default"]) == (10, [5, 300], True)
    assert {"$and", "$gt"} < set(offered["filter_operators"])
