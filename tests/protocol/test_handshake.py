"""The two messages of the verification handshake."""

import gzip
import json

import pytest

from webhooks_app.protocol.handshake import challenge_body, new_challenge, refusal_of_answer

CHALLENGE = "Zb3CkX0oSKS0tnHnBv4Zv2Jq9C5m1iVhXoV6jXQm6nY"


def test_the_request_matches_the_specification_exactly():
    assert challenge_body("abc") == b'{"type":"webhook.verification","data":{"challenge":"abc"}}'


def test_challenges_are_long_and_unique():
    challenges = {new_challenge() for _ in range(100)}

    assert len(challenges) == 100
    assert min(map(len, challenges)) >= 43


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"challenge": CHALLENGE}, id="the field alone"),
        pytest.param({"ok": True, "challenge": CHALLENGE, "deep": {"challenge": 1}}, id="other fields beside it"),
    ],
)
def test_an_answer_with_the_same_challenge_passes(body):
    assert refusal_of_answer(CHALLENGE, json.dumps(body, indent=2).encode()) == ""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", "no body", id="empty"),
        pytest.param(CHALLENGE.encode(), "not JSON", id="bare text"),
        pytest.param(b'{"challenge": "\xff"}', "not JSON", id="not UTF-8"),
        pytest.param(f'{{"challenge": "{CHALLENGE}"}}'.encode("utf-16"), "UTF-16", id="UTF-16"),
        pytest.param(f'{{"challenge": "{CHALLENGE}"'.encode(), "not JSON", id="cut short"),
        pytest.param(f'{{"challenge": "{CHALLENGE}", "x": NaN}}'.encode(), "contains NaN", id="NaN is not JSON"),
        pytest.param(f'{{"challenge": "{CHALLENGE}", "x": -Infinity}}'.encode(), "contains -Inf", id="nor Infinity"),
        pytest.param(b'{"challenge": ' + b"9" * 5000 + b"}", "not JSON", id="5,000 digits"),
        pytest.param(b"[" * 60_000, "nested too deeply", id="nested 60,000 deep"),
        pytest.param(f'\ufeff{{"challenge": "{CHALLENGE}"}}'.encode(), "byte order mark", id="byte order mark"),
        pytest.param(gzip.compress(f'{{"challenge": "{CHALLENGE}"}}'.encode()), "compressed (gzip)", id="gzip"),
        pytest.param(f'"{CHALLENGE}"'.encode(), "not a JSON object", id="bare string"),
        pytest.param(f'["{CHALLENGE}"]'.encode(), "not a JSON object", id="array"),
        pytest.param(b"null", "not a JSON object", id="null"),
        pytest.param(b"7", "not a JSON object", id="number"),
        pytest.param(f'{{"data": {{"challenge": "{CHALLENGE}"}}}}'.encode(), "no field “challenge”", id="nested"),
        pytest.param(f'{{"Challenge": "{CHALLENGE}"}}'.encode(), "no field “challenge”", id="other case of the name"),
        pytest.param(f'{{"challenge": "{CHALLENGE.upper()}"}}'.encode(), "another challenge", id="upper-cased"),
        pytest.param(f'{{"challenge": "{CHALLENGE[:-1]}"}}'.encode(), "another challenge", id="truncated"),
        pytest.param(f'{{"challenge": "{CHALLENGE}\\n"}}'.encode(), "another challenge", id="with a newline"),
        pytest.param(f'{{"challenge": ["{CHALLENGE}"]}}'.encode(), "another challenge", id="in a list"),
        pytest.param(b'{"challenge": null}', "another challenge", id="null challenge"),
        pytest.param(b'{"challenge": true}', "another challenge", id="true"),
    ],
)
def test_any_other_answer_is_refused_with_the_reason(body, reason):
    assert reason in refusal_of_answer(CHALLENGE, body)


def test_an_answer_in_another_coding_is_refused_by_its_name():
    assert "compressed (br)" in refusal_of_answer(CHALLENGE, b"\x0b\x02\x80", content_encoding="br")


@pytest.mark.parametrize("end", [b"x" * 65_000, "ü".encode()[:1]], ids=["long", "in a character"])
def test_an_incomplete_answer_is_refused_with_the_reason(end):
    body = f'{{"challenge": "{CHALLENGE}", "page": "'.encode() + end

    reason = refusal_of_answer(CHALLENGE, body, body_problem="The answer is too long.")

    assert reason.startswith("The answer is too long. Answer with a JSON object")


def test_a_reason_never_quotes_the_answer():
    assert "internal-host" not in refusal_of_answer(CHALLENGE, b'{"challenge": "internal-host"}')
