"""Input that ends early, is no text, or is interrupted."""

from __future__ import annotations

import getpass
import io
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from django.core.management.base import CommandError

from tests.support.rows import make_webhook
from webhooks_app.models import Webhook

from .conftest import Output

Run = Callable[..., Output]

READERS = [
    pytest.param(["send_test_event", "file.deleted", "--data", "-"], id="data"),
    pytest.param(["configure_webhook", "--filter", "-"], id="filter"),
    pytest.param(["configure_webhook", "--headers", "X-Tenant"], id="header"),
    pytest.param(["configure_webhook", "--basic-auth", "user"], id="password"),
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[BaseException]], None]:
    """Make each prompt raise an exception, as Ctrl-D and Ctrl-C do."""

    def interrupt(error: type[BaseException]) -> None:
        def prompt(*args: Any) -> NoReturn:
            raise error

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr("builtins.input", prompt)
        monkeypatch.setattr(getpass, "getpass", prompt)

    return interrupt


@pytest.mark.parametrize("command", READERS)
def test_standard_input_that_is_not_text_is_refused(
    run: Run, owner: Any, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    name, *options = command
    webhook = make_webhook(owner)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe{}"), encoding="utf-8"))

    with pytest.raises(CommandError, match="cannot be decoded"):
        run(name, webhook.pk, *options)


@pytest.mark.parametrize(
    ("error", "message"), [(EOFError, "ended before"), (KeyboardInterrupt, "Stopped")], ids=["ctrl-d", "ctrl-c"]
)
def test_an_interrupted_password_changes_nothing(
    run: Run, owner: Any, terminal: Any, error: type[BaseException], message: str
) -> None:
    webhook = make_webhook(owner)
    terminal(error)

    with pytest.raises(CommandError, match=message):
        run("configure_webhook", webhook.pk, "--basic-auth", "user")

    assert Webhook.objects.get().headers == {}


def test_an_ended_input_answers_no(run: Run, owner: Any, terminal: Any) -> None:
    make_webhook(owner)
    terminal(EOFError)

    output = run("forget_webhook_owner", "amina")

    assert "Nothing was deleted." in output.stderr
    assert Webhook.objects.existing().exists()


def test_an_interrupted_question_deletes_nothing(run: Run, owner: Any, terminal: Any) -> None:
    make_webhook(owner)
    terminal(KeyboardInterrupt)

    with pytest.raises(CommandError) as raised:
        run("forget_webhook_owner", "amina")

    assert (str(raised.value), raised.value.returncode) == ("Stopped.", 130)
    assert Webhook.objects.existing().exists()
