"""``create_webhook`` and ``list_webhooks``"""

from __future__ import annotations

import getpass
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from tests.support.rows import make_webhook
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import AuditEntry, Delivery, Webhook
from webhooks_app.models.audit import Via
from webhooks_app.receiver.local import Answers, ChallengeAnswer, LocalReceiver

from .conftest import SECRET, Output

Run = Callable[..., Output]

URL = "https://hooks.example.com/in"
NEW = ["create_webhook", URL, "--owner", "amina", "--events", "file.uploaded", "file.deleted"]


def test_the_id_and_the_secret_are_printed_and_a_challenge_is_queued(run: Run, owner: Any) -> None:
    output = run(*NEW, "--description", "Archive")

    webhook = Webhook.objects.get()
    assert output.stdout == f"{webhook.pk}\n{webhook.secret}\n"
    assert webhook.secret not in output.stderr
    assert (webhook.owner, webhook.url, webhook.description, webhook.status) == (owner, URL, "Archive", "pending")
    assert webhook.event_types == ["file.uploaded", "file.deleted"]
    assert Delivery.objects.get().kind == Delivery.Kind.VERIFICATION
    assert AuditEntry.objects.get(action="webhook.created").via == Via.COMMAND


def test_a_new_webhook_as_json(run: Run, owner: Any) -> None:
    created = json.loads(run(*NEW, "--format", "json").stdout)

    webhook = Webhook.objects.get()
    assert (created["id"], created["secret"], created["owner"]) == (webhook.pk, webhook.secret, "amina")
    assert (created["url"], created["status"]) == (URL, "pending")


def test_a_webhook_of_the_platform(run: Run, db: None) -> None:
    run("create_webhook", URL, "--platform", "--events", "file.deleted")

    assert Webhook.objects.get().owner is None


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_a_secret_of_your_own_is_not_an_argument(
    run: Run, owner: Any, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: SECRET)

    run(*NEW, "--own-secret")

    assert Webhook.objects.get().secret == SECRET


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["ftp://a.example", "--owner", "amina", "--events", "file.deleted"], "url: ", id="url"),
        pytest.param([URL, "--owner", "amina", "--events", "file.deletd"], "file.deleted", id="event type"),
        pytest.param([URL, "--owner", "nobody", "--events", "file.deleted"], "nobody", id="owner"),
        pytest.param([URL, "--events", "file.deleted"], "--owner", id="no owner"),
        pytest.param([URL, "--owner", "amina"], "--events", id="no events"),
    ],
)
def test_wrong_values_are_explained_and_nothing_is_created(
    run: Run, owner: Any, arguments: list[str], message: str
) -> None:
    with pytest.raises(CommandError, match=message):
        run("create_webhook", *arguments)

    assert not Webhook.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(ChallengeAnswer.RIGHT, "active", id="passed"),
        pytest.param(ChallengeAnswer.WRONG, "failed", id="failed"),
    ],
)
def test_the_verification_is_shown_until_its_end(
    run: Run,
    owner: Any,
    receiver: LocalReceiver,
    worker: Engine,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    answer: ChallengeAnswer,
    status: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(SECRET))
    settings.WEBHOOKS_RETRY_POLICIES = ["tests.support.retries.Quick"]
    receiver.answers = Answers(challenge=answer)
    new = ["create_webhook", receiver.url, "--owner", "amina", "--events", "file.deleted", "--own-secret", "--wait"]

    if status == "failed":
        with pytest.raises(CommandError, match=r"verification failed: .* another challenge"):
            run(*new)
    else:
        assert "attempt 1 of 4: succeeded (status 200)" in run(*new).stderr

    assert Webhook.objects.get().status == status


@pytest.fixture
def three(owner: Any, django_user_model: Any) -> dict[str, Webhook]:
    boris = django_user_model.objects.create_user("boris")
    return {
        "amina": make_webhook(owner, url="https://a.example/in"),
        "boris": make_webhook(boris, url="https://b.example/in", status="disabled"),
        "platform": make_webhook(None, url="https://p.example/in"),
    }


def ids(output: Output) -> list[str]:
    return [line.split()[0] for line in output.stdout.splitlines()]


def test_webhooks_are_listed_in_lines_without_secrets(run: Run, three: dict[str, Webhook]) -> None:
    output = run("list_webhooks")

    assert ids(output) == [three[name].pk for name in ("platform", "boris", "amina")]
    first, second, _ = output.stdout.splitlines()
    assert first.split() == [three["platform"].pk, "active", "unused", "-", "https://p.example/in"]
    assert second.split() == [three["boris"].pk, "disabled", "disabled", "boris", "https://b.example/in"]
    assert not any(each.secret in output.stdout for each in three.values())


def test_the_list_as_json(run: Run, three: dict[str, Webhook]) -> None:
    listed = json.loads(run("list_webhooks", "--format", "json").stdout)

    assert [(each["id"], each["owner"], each["health"]) for each in listed] == [
        (three["platform"].pk, None, "unused"),
        (three["boris"].pk, "boris", "disabled"),
        (three["amina"].pk, "amina", "unused"),
    ]
    assert "secret" not in listed[0]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        pytest.param(["--owner", "amina"], ["amina"], id="owner"),
        pytest.param(["--platform"], ["platform"], id="platform"),
        pytest.param(["--status", "disabled"], ["boris"], id="status"),
        pytest.param(["--owner", "amina", "--status", "disabled"], [], id="none"),
    ],
)
def test_the_list_can_be_narrowed(run: Run, three: dict[str, Webhook], options: list[str], names: list[str]) -> None:
    output = run("list_webhooks", *options)

    assert ids(output) == [three[name].pk for name in names]
    assert ("No webhooks found." in output.stderr) is (not names)


def test_a_longer_list_is_announced(run: Run, three: dict[str, Webhook]) -> None:
    output = run("list_webhooks", "--limit", "2")

    assert ids(output) == [three["platform"].pk, three["boris"].pk]
    assert "more than 2" in output.stderr


def test_a_deleted_webhook_is_not_listed(run: Run, three: dict[str, Webhook]) -> None:
    Webhook.objects.filter(pk=three["amina"].pk).update(deleted_at=timezone.now())

    assert three["amina"].pk not in run("list_webhooks").stdout
