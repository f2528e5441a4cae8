"""The API, the console and the commands call the same operations and share their limits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

import webhooks_app
from webhooks_app.models import AuditEntry, Delivery, Webhook
from webhooks_app.operations import lifecycle, replays, rotation

from ..api.conftest import client_of
from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, unverified

pytestmark = pytest.mark.django_db

ROOT = Path(webhooks_app.__file__).parent
EDGES = ("admin", "api", "management", "portal")


def audited_methods() -> Iterator[str]:
    """Yield the public methods of rows that write an entry of the audit log."""
    for path in (ROOT / "models").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
                if any(isinstance(func, ast.Attribute) and func.attr in ("audit", "auditing") for func in calls):
                    yield node.name


VERBS = {
    *(set(audited_methods()) - {"auditing", "change", "delete", "fail", "start"}),  # names of other things, too
    *("acknowledge", "await_verification", "ignore", "redeliver", "reopen", "revoke_previous_secret", "rotate_secret"),
    "withdraw_secret",
}
"""Methods of a row, called only by operations."""

INSIDE = {
    *("acting", "check_in_flight", "limit_test", "limit_verification", "new_test_event", "plan_replay"),
    *("queue_handshake", "queue_test"),
}
"""Parts of operations, imported by no entry point."""

OPERATIONS = {module.__name__.rpartition(".")[2] for module in (lifecycle, replays, rotation)}

MODULES = sorted(path for edge in EDGES for path in (ROOT / edge).rglob("*.py"))


def verbs_called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in VERBS:
            is_of_operations = isinstance(node.value, ast.Name) and node.value.id in OPERATIONS
            if not is_of_operations:
                yield node.attr


def names_imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (name.name for name in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_entry_points_change_rows_only_by_operations(path):
    tree = ast.parse(path.read_text())

    assert list(verbs_called(tree)) == []
    assert INSIDE.isdisjoint(names_imported(tree))


def test_only_the_api_throttle_imports_rate_limits():
    importers = {path.name for path in MODULES if "rate_limits" in path.read_text()}

    assert importers == {"authentication.py"}


class Console:
    def __init__(self):
        self.client = Client()
        self.client.force_login(get_user_model().objects.create_superuser("root"))

    def act(self, row, action, **form):
        model = row._meta.model_name
        url = reverse(f"admin:webhooks_app_{model}_act", args=(row.pk, action))
        page = self.client.post(url, {"confirmed": "yes", **form}, follow=True)
        return [str(message) for message in page.context["messages"]]


def latest_of(webhook):
    return webhook.deliveries.latest("pk")


BY_CONSOLE = {
    "verify": lambda console, webhook: console.act(webhook, "verify"),
    "test": lambda console, webhook: console.act(webhook, "send_test", event_type=EVENT_TYPE),
    "pause": lambda console, webhook: console.act(webhook, "pause"),
    "redeliver": lambda console, webhook: console.act(latest_of(webhook), "redeliver"),
}
BY_API = {
    "verify": lambda api, webhook: api.call("POST", f"/v1/webhooks/{webhook.pk}/verify"),
    "test": lambda api, webhook: api.call(
        "POST", "/v1/webhooks/test", {"webhook_id": webhook.pk, "event_type": EVENT_TYPE}
    ),
    "pause": lambda api, webhook: api.call("POST", f"/v1/webhooks/{webhook.pk}/pause"),
    "redeliver": lambda api, webhook: api.call("POST", f"/v1/deliveries/{latest_of(webhook).pk}/redeliver"),
}
BY_COMMAND = {
    "verify": lambda webhook: call_command("verify_webhook", webhook.pk, "--no-wait"),
    "test": lambda webhook: call_command("send_test_event", webhook.pk, EVENT_TYPE),
    "pause": lambda webhook: call_command("pause_webhook", webhook.pk),
    "redeliver": lambda webhook: call_command("redeliver_webhooks", latest_of(webhook).pk),
}


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@pytest.mark.parametrize("name", BY_API)
def test_all_entry_points_have_the_same_effect_and_are_audited(webhook, alice, name):
    emit_one(alice)
    end_deliveries(state="given_up")
    if name == "verify":
        unverified(webhook)
    api, console = client_of(alice), Console()
    AuditEntry.objects.all().delete()

    for by in (
        lambda: BY_API[name](api, webhook),
        lambda: BY_CONSOLE[name](console, webhook),
        lambda: BY_COMMAND[name](webhook),
    ):
        by()
        Webhook.objects.update(paused_at=None)
        end_deliveries(state="given_up")

    entries = AuditEntry.objects.order_by("id")
    assert [entry.via for entry in entries] == ["api", "console", "command"]
    assert len({entry.action for entry in entries}) == 1


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        ("verify", "VERIFICATION", "Too many verifications of one webhook: at most 1/min"),
        ("test", "TEST", "Too many test events to one webhook: at most 1/min"),
    ],
)
def test_entry_points_share_their_limits(webhook, alice, settings, name, limit, words):
    setattr(settings, f"WEBHOOKS_{limit}_RATE", "1/min")
    if name == "verify":
        unverified(webhook)
    assert BY_API[name](client_of(alice), webhook).status_code == 202
    number = Delivery.objects.count()

    messages = BY_CONSOLE[name](Console(), webhook)
    with pytest.raises(CommandError, match=words):
        BY_COMMAND[name](webhook)

    assert [message.partition(".")[0] for message in messages] == [words]
    assert BY_API[name](client_of(alice), webhook).status_code == 429
    assert Delivery.objects.count() == number


def test_a_command_redelivers_no_more_tests_than_the_others(webhook, settings):
    settings.WEBHOOKS_TEST_RATE = "1/min"
    call_command("send_test_event", webhook.pk, EVENT_TYPE)
    end_deliveries(state="given_up")

    with pytest.raises(CommandError, match="Too many test events to one webhook"):
        BY_COMMAND["redeliver"](webhook)

    assert Delivery.objects.count() == 1


def test_an_invalid_form_is_not_counted_and_a_refused_one_keeps_its_input(alice, settings):
    settings.WEBHOOKS_PROBE_RATE = "1/min"
    console, url = Console(), reverse("admin:webhooks_app_webhook_add")
    form = {"audience": "one", "owner": alice.pk, "url": "https://receiver.example.com/", "event_types": [EVENT_TYPE]}

    for _ in range(3):
        console.client.post(url, {**form, "event_types": ["no.such_type"]})
        console.client.post(url, {**form, "secret": "too short"})
    first = console.client.post(url, form, follow=True)
    second = console.client.post(url, {**form, "description": "the second"})

    assert Webhook.objects.count() == 1
    assert "whsec_" in first.text
    assert "Too many tests and verifications of one account" in second.text
    assert 'value="the second"' in second.text
