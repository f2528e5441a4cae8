"""The help of every command, and its answer to an unknown id or owner."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandError
from django.test import override_settings

from .conftest import Output

Run = Callable[..., Output]

COMMANDS = sorted((name, app) for name, app in get_commands().items() if str(app).startswith("webhooks_app"))
OF_DJANGO = {action.dest for action in BaseCommand().create_parser("", "")._actions}
WEBHOOK = "wh_" + "0" * 32
NOT_UTF_8 = "\udcff"
"""The byte 0xFF as Python decodes it on the command line."""

UNKNOWN = [
    pytest.param([name, WEBHOOK, *rest], id=name)
    for name, *rest in (
        ("configure_webhook",),
        ("pause_webhook",),
        ("resume_webhook",),
        ("replay_webhooks",),
        ("replay_webhooks", "--dry-run"),
        ("rotate_webhook_secret",),
        ("send_test_event", "file.deleted"),
        ("try_webhook_filter", "evt_1"),
        ("verify_webhook",),
        ("explain_event",),
        ("redeliver_webhooks",),
        ("forget_webhook_owner",),
        ("create_api_key",),
    )
] + [
    pytest.param(["emit_event", "file.deleted", "--owner", "nobody", "--data", "{}"], id="emit_event"),
    pytest.param(["emit_event", "file.deletd", "--platform", "--data", "{}"], id="event type"),
    pytest.param(["replay_webhooks", "rpl_1"], id="replay"),
    pytest.param(["rotate_webhook_secret", NOT_UTF_8], id="id that is not in UTF-8"),
    pytest.param(["forget_webhook_owner", NOT_UTF_8], id="owner that is not in UTF-8"),
    pytest.param(["forget_webhook_owner", "9" * 40], id="owner with a long number"),
]


def own_arguments(name: str, app: str) -> list[argparse.Action]:
    parser = load_command_class(app, name).create_parser("manage.py", name)
    return [action for action in parser._actions if action.dest not in OF_DJANGO]


@pytest.mark.parametrize(("name", "app"), COMMANDS)
def test_every_argument_is_explained_with_its_default(name: str, app: str) -> None:
    for action in own_arguments(name, app):
        explanation = action.help or ""
        assert re.fullmatch(r"[^a-z].*[.)]", explanation), action.dest
        if action.default not in (None, False, []):
            assert "Default: " in explanation, action.dest


@pytest.mark.parametrize(("name", "app"), COMMANDS)
def test_the_help_is_shown_with_invalid_settings(name: str, app: str) -> None:
    with override_settings(WEBHOOKS_SIGNATURES=["nowhere"], WEBHOOKS_RETRY_POLICIES=["nowhere"], WEBHOOKS_ORDERS=[]):
        text = load_command_class(app, name).create_parser("manage.py", name).format_help()

    assert text.startswith("usage: manage.py")


@pytest.mark.parametrize("arguments", UNKNOWN)
def test_an_unknown_row_is_named_in_one_line_and_the_status_is_1(run: Run, db: None, arguments: list[str]) -> None:
    with pytest.raises(CommandError) as refused:
        run(*arguments)

    assert refused.value.returncode == 1
    assert str(refused.value).count("\n") == 0
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["create_api_key", "amina", "--name", NOT_UTF_8], id="name of a key"),
        pytest.param(["create_api_key", "amina", "--service", "--create-user"], id="owner and service"),
        pytest.param(["create_api_key", "--service", "--create-user"], id="service with a user"),
        pytest.param(["listen_webhooks", "--host", NOT_UTF_8], id="host"),
        pytest.param(["listen_webhooks", "--port", "99999999"], id="port"),
    ],
)
def test_an_unusable_option_is_explained_in_one_line(run: Run, owner: Any, arguments: list[str]) -> None:
    with pytest.raises(CommandError) as refused:
        run(*arguments)

    assert str(refused.value).isprintable()
    assert ".." not in str(refused.value)


def test_an_unknown_row_causes_no_traceback(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    command = load_command_class("webhooks_app", "pause_webhook")

    with pytest.raises(SystemExit) as exit_:
        command.run_from_argv(["manage.py", "pause_webhook", WEBHOOK, "--skip-checks"])

    assert exit_.value.code == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
