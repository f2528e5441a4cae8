"""The examples of the page on the wire format."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from webhooks_app.event_types import RETRY_NOTICE, VERIFICATION
from webhooks_app.event_types.builtin import PRESENTATION_EVENT_TYPES
from webhooks_app.protocol.handshake import challenge_body, refusal_of_answer
from webhooks_app.receiver import verify
from webhooks_app.retry import SpecificationPolicy
from webhooks_app.signatures import sign, signed_headers

from . import vector

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "wire-format.md").read_text()
FOR_INTEGRATORS = (DOCS / "integrators" / "verifying.md").read_text()
SECRET = "the secret of the examples"

RUNNERS = {
    "Python": ("receiver.py", [sys.executable, "{file}"]),
    "JavaScript": ("receiver.mjs", ["node", "{file}"]),
    "PHP": ("receiver.php", ["php", "-S", "127.0.0.1:{port}", "{file}"]),
}
"""The file of the example under a heading, and its command. Languages that are not installed are left out."""


def code_under(heading, page=PAGE):
    section = page.partition(f"# {heading}\n")[2]
    return re.search(r"```\w+\n(.*?)```", section, re.DOTALL)[1]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until_it_listens(process, port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, "the example ended by itself"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the example does not listen")


@pytest.fixture(scope="module", params=[heading for heading, (_, how) in RUNNERS.items() if shutil.which(how[0])])
def address(request, tmp_path_factory):
    """The URL of a language's example receiver."""
    name, command = RUNNERS[request.param]
    file, port = tmp_path_factory.mktemp("example") / name, free_port()
    file.write_text(code_under(request.param, FOR_INTEGRATORS))
    process = subprocess.Popen(
        [part.format(file=file, port=port) for part in command],
        env={**os.environ, "WEBHOOK_SECRET": SECRET, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_it_listens(process, port)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait()


def event_body(**changes):
    event = json.loads(vector.BODY)
    return json.dumps(event | changes, ensure_ascii=False).encode()


def headers_for(body, *, secret=SECRET, previous_secret="", age=0):
    timestamp, event_type = int(time.time()) - age, json.loads(body)["type"]
    return dict(signed_headers(secret, timestamp, event_type, body, previous_secret=previous_secret))


def test_an_example_confirms_a_genuine_event_and_its_duplicate(address):
    body = event_body(id=f"evt_{time.time_ns()}")

    answers = [requests.post(address, body, headers=headers_for(body), timeout=10) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize(
    "secrets",
    [
        pytest.param({"secret": SECRET, "previous_secret": "the old secret"}, id="current"),
        pytest.param({"secret": "the new secret", "previous_secret": SECRET}, id="previous"),
    ],
)
def test_an_example_accepts_either_secret_of_a_rotation(address, secrets):
    body = event_body(id=f"evt_{time.time_ns()}")

    answer = requests.post(address, body, headers=headers_for(body, **secrets), timeout=10)

    assert answer.status_code == 200


def test_an_example_answers_the_challenge(address):
    body = challenge_body("abc")

    answer = requests.post(address, body, headers=headers_for(body), timeout=10)

    assert answer.status_code == 200
    assert refusal_of_answer("abc", answer.content) == ""


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(headers_for(event_body(), secret="another secret"), id="another secret"),
        pytest.param(
            headers_for(event_body(), secret="another secret", previous_secret="a third one"), id="rotation of others"
        ),
        pytest.param(headers_for(event_body(id="evt_2")), id="another body"),
        pytest.param(headers_for(event_body(), age=400), id="old"),
        pytest.param(headers_for(event_body(), age=-86_400), id="from the future"),
        pytest.param(headers_for(event_body()) | {"X-Webhook-Signature": "sha256=ü".encode("latin-1")}, id="not ASCII"),
        pytest.param(
            {"X-Webhook-Timestamp": "soon", "X-Webhook-Signature": sign(SECRET, "soon", event_body())}, id="soon"
        ),
        pytest.param({"Content-Type": "application/json"}, id="no headers"),
    ],
)
def test_an_example_rejects_a_request_that_is_not_genuine(address, headers):
    answer = requests.post(address, event_body(), headers=headers, timeout=10)

    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_page_shows_the_published_vector():
    block = code_under("A delivery")

    for name, value in signed_headers(vector.SECRET, vector.TIMESTAMP, "ppt.generation.completed", vector.BODY):
        assert f"{name}: {value}\n" in block
    for line in (f"SECRET='{vector.SECRET}'", f"TIMESTAMP='{vector.TIMESTAMP}'", f"BODY='{vector.BODY.decode()}'"):
        assert f"{line}\n" in code_under("Test vector")
    assert f"It prints `{vector.SIGNATURE.removeprefix('sha256=')}`." in PAGE


def test_the_page_shows_both_signatures_of_a_rotation():
    headers = signed_headers(
        vector.SECRET, vector.TIMESTAMP, "ppt.generation.completed", vector.BODY, previous_secret=vector.PREVIOUS_SECRET
    )

    shown = dict(line.split(": ") for line in code_under("Rotation").splitlines())
    assert shown == {name: value for name, value in headers if name.startswith("X-Webhook-Signature")}
    assert f"has replaced `{vector.PREVIOUS_SECRET}`" in PAGE


@pytest.mark.parametrize("secret", [vector.SECRET, vector.PREVIOUS_SECRET], ids=["current", "previous"])
def test_either_secret_of_the_page_verifies_the_vector(secret):
    signatures = dict(line.split(": ") for line in code_under("Rotation").splitlines())
    headers = {
        **signatures,
        "X-Webhook-Timestamp": str(vector.TIMESTAMP),
        "X-Webhook-Event": "ppt.generation.completed",
    }

    assert verify(vector.BODY, headers, secret, tolerance=None).id


if shutil.which("openssl"):

    def test_the_shell_commands_print_the_vectors_digest():
        answer = subprocess.run(["sh", "-c", code_under("Test vector")], capture_output=True, check=True)

        assert answer.stdout.decode().split()[-1] == vector.SIGNATURE.removeprefix("sha256=")


def test_the_documented_handshake_matches_the_sent_one():
    challenge = VERIFICATION.example["challenge"]

    assert f"```json\n{challenge_body(challenge).decode()}\n```" in PAGE
    assert f'```json\n{{"challenge":"{challenge}"}}\n```' in PAGE


def test_the_documented_notice_matches_the_sent_one():
    notice = json.loads(code_under("Notices"))

    assert list(notice) == ["id", "type", "created", "data"]
    assert notice["type"] == RETRY_NOTICE.name
    assert RETRY_NOTICE.validate(notice["data"]) == notice["data"]


def test_the_documented_schedule_matches_the_policy():
    first, second, third = (int(delay.total_seconds()) for delay in SpecificationPolicy().delays)

    words = " ".join(PAGE.split())
    assert (
        f"{first} second after the failure, then {second} seconds after the next, then {third}: at most four" in words
    )


def test_the_vector_fits_the_catalogue():
    [completed] = [each for each in PRESENTATION_EVENT_TYPES if each.name == "ppt.generation.completed"]
    data = json.loads(vector.BODY)["data"]

    assert completed.validate(data) == data
