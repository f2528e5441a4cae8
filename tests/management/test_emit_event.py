"""``emit_event``"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from webhooks_app.exceptions import UnknownEventTypeError
from webhooks_app.models import Delivery, Event, Webhook

from .conftest import Output

Run = Callable[..., Output]

DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "Übersicht.pdf"}


def test_stdout_contains_the_id_of_the_event(run: Run, webhook: Webhook, owner: Any) -> None:
    output = run("emit_event", "file.deleted", "--owner", "amina", "--data", json.dumps(DATA))

    event = Event.objects.get(pk=output.stdout.removesuffix("\n"))
    assert (event.owner, event.type, event.data) == (owner, "file.deleted", DATA)
    assert Delivery.objects.get().webhook == webhook
    assert "Queued for 1 webhook" in output.stderr


def test_an_event_without_subscribers_causes_a_warning(run: Run, owner: Any) -> None:
    output = run("emit_event", "file.deleted", "--owner", "amina", "--data", json.dumps(DATA))

    assert "Queued for no webhook. The reasons: manage.py explain_event evt_" in output.stderr


def test_a_platform_event_has_no_owner(run: Run, webhook: Webhook) -> None:
    run("emit_event", "file.deleted", "--platform", "--data", json.dumps(DATA))

    assert Event.objects.get().owner is None
    assert not Delivery.objects.exists()


def test_data_comes_from_a_file(run: Run, db: None, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(DATA), encoding="utf-8")

    run("emit_event", "file.deleted", "--platform", "--data", f"@{path}")

    assert Event.objects.get().data == DATA


def test_data_comes_from_standard_input(run: Run, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(DATA)))

    run("emit_event", "file.deleted", "--platform", "--data", "-")

    assert Event.objects.get().data == DATA


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["file.deletd", "--platform", "--data", "{}"], "Did you mean file.deleted?", id="unknown type"),
        pytest.param(["file.deleted", "--owner", "nobody", "--data", "{}"], "No user has", id="unknown owner"),
        pytest.param(["file.deleted", "--platform", "--data", "{"], "not JSON", id="broken JSON"),
        pytest.param(["file.deleted", "--platform", "--data", "[1]"], "not a JSON object", id="array"),
        pytest.param(["file.deleted", "--platform", "--data", "@/no/such/file"], "cannot be read", id="missing file"),
        pytest.param(["file.deleted", "--platform", "--data", "{}"], "file_id: is missing", id="missing field"),
        pytest.param(["file.deleted", "--platform", "--data", "{}"], '"filename": ', id="example in the hint"),
        pytest.param(["file.deleted", "--data", "{}"], "--owner --platform is required", id="whose"),
        pytest.param(["webhook.retry", "--platform", "--data", "{}"], "Unknown event type", id="internal type"),
    ],
)
def test_invalid_events_are_refused_with_a_hint(run: Run, db: None, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        run("emit_event", *arguments)

    assert message in str(caught.value)
    assert not Event.objects.exists()


def test_an_unknown_owner_is_told_how_to_find_the_primary_key(
    run: Run, owner: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError) as caught:
        run("emit_event", "file.deleted", "--owner", "anna", "--data", "{}")

    told = str(caught.value)
    assert "No user has the username or the primary key 'anna'." in told
    arguments = shlex.split(told[told.index("manage.py shell") :])
    call_command(*arguments[1:])
    assert f"({owner.pk}, 'amina')" in capsys.readouterr().out


@pytest.mark.parametrize("pattern", [" {}", "0{}"], ids=["space", "zero"])
def test_another_spelling_of_a_key_is_no_owner(run: Run, owner: Any, pattern: str) -> None:
    with pytest.raises(CommandError, match="No user has"):
        run("emit_event", "file.deleted", "--owner", pattern.format(owner.pk), "--data", json.dumps(DATA))


def test_errors_keep_their_cause(run: Run, db: None) -> None:
    with pytest.raises(CommandError) as caught:
        run("emit_event", "no.such_type", "--platform", "--data", "{}")

    assert isinstance(caught.value.__cause__, UnknownEventTypeError)


def test_an_event_has_references_and_is_emitted_once_for_a_key(run: Run, owner: Any) -> None:
    arguments = ["emit_event", "ppt.generation.failed", "--owner", "amina", "--data", '{"error": "a"}']

    first, again = (
        run(*arguments, "--reference", "ppt_1", "--reference", "b", "--idempotency-key", "k", "--ordering-key", "o")
        for _ in range(2)
    )

    event = Event.objects.get()
    assert first.stdout == again.stdout == f"{event.pk}\n"
    assert set(event.references.values_list("value", flat=True)) == {"ppt_1", "b"}
    assert event.ordering_key == "o"
