"""``listen_webhooks`` in a separate process, with real requests."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
import requests
from django.core.management import CommandError, call_command

from webhooks_app.protocol.handshake import challenge_body
from webhooks_app.signatures import signed_headers

from .conftest import SECRET

Begin = Callable[..., "subprocess.Popen[str]"]

ENVELOPE = {
    "id": "evt_1",
    "type": "file.deleted",
    "created": "2026-01-31T12:00:00.123456Z",
    "data": {"filename": "Übersicht.pdf"},
}


class Listener:
    """A running ``listen_webhooks``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stderr is not None
        found = re.search(r"http://\S+/", process.stderr.readline())
        assert found, process.communicate()
        self.url = found[0]

    def post(self, body: bytes, event_type: str = "file.deleted", secret: str = SECRET) -> requests.Response:
        headers = dict(signed_headers(secret, int(time.time()), event_type, body))
        return requests.post(self.url, data=body, headers=headers, timeout=10)

    def post_event(self, **changes: Any) -> requests.Response:
        return self.post(json.dumps(ENVELOPE | changes).encode())

    def output(self, number: int = signal.SIGTERM) -> str:
        """Stop it and return its output."""
        self._process.send_signal(number)
        stdout, stderr = self._process.communicate(timeout=30)
        assert (self._process.returncode, "Traceback" in stderr) == (0, False)
        return stdout


@pytest.fixture
def listen(begin: Begin) -> Callable[..., Listener]:
    def listen(*arguments: str, **environment: str) -> Listener:
        # The command needs no database.
        no_database = {"TEST_DATABASE_URL": "sqlite:////no/such/directory/db.sqlite3"}
        return Listener(begin("listen_webhooks", "--port", "0", *arguments, **no_database, **environment))

    return listen


def test_an_event_is_answered_with_200_and_shown(listen: Callable[..., Listener]) -> None:
    listener = listen("--secret", SECRET)

    assert listener.post_event().status_code == 200
    output = listener.output()
    for shown in ("file.deleted", "evt_1", "valid signature", "answered 200", "Übersicht.pdf"):
        assert shown in output
    assert "\x1b" not in output


def test_the_challenge_is_answered(listen: Callable[..., Listener]) -> None:
    listener = listen("--secret", SECRET)

    answer = listener.post(challenge_body("abc"), "webhook.verification")

    assert (answer.status_code, answer.json()) == (200, {"challenge": "abc"})


@pytest.mark.parametrize("option", ["--no-challenge", "--wrong-challenge"])
def test_no_challenge_leaves_it_unanswered(listen: Callable[..., Listener], option: str) -> None:
    answer = listen(option).post(challenge_body("abc"), "webhook.verification")

    assert (answer.status_code, answer.json().get("challenge") == "abc") == (200, False)


def test_a_bad_signature_is_refused_and_shown(listen: Callable[..., Listener]) -> None:
    listener = listen("--secret", SECRET)

    answer = listener.post(json.dumps(ENVELOPE).encode(), secret="a secret of somebody else")

    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert "REFUSED: The signature does not match" in listener.output()


def test_one_of_several_secrets_is_enough(listen: Callable[..., Listener]) -> None:
    assert listen("--secret", "another secret of ours", SECRET).post_event().status_code == 200


def test_retries_and_duplicates_are_marked(listen: Callable[..., Listener]) -> None:
    listener = listen("--secret", SECRET, "--answer", "503,200")

    assert [listener.post_event().status_code for _ in range(3)] == [503, 200, 200]
    headlines = [line for line in listener.output().splitlines() if "evt_1" in line]
    assert ["RETRY" in line for line in headlines] == [False, True, False]
    assert ["DUPLICATE" in line for line in headlines] == [False, False, True]


def test_fail_first_fails_for_each_event(listen: Callable[..., Listener]) -> None:
    listener = listen("--fail-first", "1")

    statuses = [listener.post_event(id=event_id).status_code for event_id in ("evt_1", "evt_2", "evt_1", "evt_2")]

    assert statuses == [500, 500, 200, 200]


def test_a_retry_notice_is_not_made_to_fail_first(listen: Callable[..., Listener]) -> None:
    body = json.dumps(ENVELOPE | {"id": "evt_9", "type": "webhook.retry"}).encode()

    assert listen("--fail-first", "1").post(body, "webhook.retry").status_code == 200


def test_nothing_received_reaches_the_terminal_as_a_command(listen: Callable[..., Listener]) -> None:
    listener = listen("--force-color")

    hostile = "\x1b]0;owned\x07\x1b[2J\u202e\u0085"
    listener.post_event(type=hostile, id=hostile, data={hostile: hostile})
    output = listener.output()

    painted = re.sub(r"\x1b\[[0-9;]*m", "", output)
    assert "owned" in painted
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", painted)


def test_no_color_is_respected(listen: Callable[..., Listener]) -> None:
    listener = listen(NO_COLOR="1")

    listener.post_event()

    assert "\x1b" not in listener.output()


def test_json_prints_a_line_for_each_request(listen: Callable[..., Listener]) -> None:
    listener = listen("--secret", SECRET, "--json")

    listener.post_event()
    listener.post(b"rubbish")
    first, second = (json.loads(line) for line in listener.output().splitlines())

    assert (first["id"], first["verified"], first["answered"]) == ("evt_1", True, 200)
    assert json.loads(first["body"]) == ENVELOPE
    assert (second["verified"], second["answered"], second["body"]) == (False, 400, "rubbish")


def test_ctrl_c_ends_it_without_a_traceback(listen: Callable[..., Listener]) -> None:
    assert listen().output(signal.SIGINT) == ""


def test_a_port_in_use_is_named(begin: Begin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = begin("listen_webhooks", "--port", str(taken.getsockname()[1]))
        _, stderr = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "Choose another --port" in stderr


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--answer", "100"], id="informational"),
        pytest.param(["--answer", "200,"], id="empty"),
        pytest.param(["--answer", "ok"], id="word"),
        pytest.param(["--secret", ""], id="empty secret"),
        pytest.param(["--delay", "-1"], id="negative delay"),
        pytest.param(["--port", "70000"], id="port out of range"),
        pytest.param(["--host", "256.1.1.1"], id="no address"),
        pytest.param(["--no-challenge", "--wrong-challenge"], id="contradiction"),
    ],
)
def test_invalid_options_are_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        call_command("listen_webhooks", *arguments)
