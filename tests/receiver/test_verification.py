"""Results and errors of ``verify``."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.message import Message

import pytest
from django.http.request import HttpHeaders
from hypothesis import example, given, settings
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from webhooks_app.exceptions import WebhookVerificationError
from webhooks_app.protocol.handshake import challenge_body
from webhooks_app.receiver import challenge_answer, verify
from webhooks_app.signatures import PREVIOUS_SIGNATURE_HEADER, sign, signed_headers

from ..protocol import vector

NOW = datetime.fromtimestamp(vector.TIMESTAMP, UTC)
SECRET = "a secret of the integrator's"
HEADERS = dict(signed_headers(vector.SECRET, vector.TIMESTAMP, "ppt.generation.completed", vector.BODY))

EVENT = {"id": "evt_1", "type": "file.deleted", "created": "2026-01-01T12:00:00.000000Z", "data": {"file_id": "file_1"}}


def headers_for(body, *, event_type="file.deleted", timestamp=vector.TIMESTAMP, secret=SECRET):
    return dict(signed_headers(secret, timestamp, event_type, body))


def received(body, **changes):
    return verify(body, headers_for(body, **changes), SECRET, now=NOW)


def refusal(body, headers, secret=SECRET, **options):
    with pytest.raises(WebhookVerificationError) as caught:
        verify(body, headers, secret, **{"now": NOW} | options)
    return str(caught.value)


def test_the_published_vector_is_a_genuine_event():
    event = verify(vector.BODY, HEADERS, vector.SECRET, now=NOW)

    assert (event.id, event.type) == ("evt_019b796dd6001f6d6a3c9f0e5b7d2a41", "ppt.generation.completed")
    assert event.created == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert event.data["title"] == "Rückblick 2025"
    assert not event.is_verification


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({name.lower(): value for name, value in HEADERS.items()}, id="lower case"),
        pytest.param({name.upper(): value for name, value in HEADERS.items()}, id="upper case"),
        pytest.param({name: [value] for name, value in HEADERS.items()}, id="lists of one"),
        pytest.param({name.encode(): value.encode() for name, value in HEADERS.items()}, id="bytes"),
        pytest.param(CaseInsensitiveDict(HEADERS), id="of requests"),
        pytest.param(
            HttpHeaders({f"HTTP_{name.upper().replace('-', '_')}": value for name, value in HEADERS.items()}),
            id="of Django",
        ),
    ],
)
def test_the_header_names_of_common_frameworks_are_supported(headers):
    assert verify(vector.BODY, headers, vector.SECRET, now=NOW).type == "ppt.generation.completed"


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_bytes_like_types_are_accepted(kind):
    assert verify(kind(vector.BODY), HEADERS, vector.SECRET, now=NOW).id


@pytest.mark.parametrize("secrets", [(vector.SECRET, "another"), ["another", vector.SECRET]])
def test_any_of_several_secrets_is_accepted(secrets):
    assert verify(vector.BODY, HEADERS, secrets, now=NOW).id


def test_a_receiver_with_the_old_secret_verifies_by_the_previous_signature():
    headers = headers_for(vector.BODY, event_type="ppt.generation.completed", secret="the new secret, unknown to it")
    headers[PREVIOUS_SIGNATURE_HEADER] = HEADERS["X-Webhook-Signature"]

    assert verify(vector.BODY, headers, vector.SECRET, now=NOW).id


def test_the_previous_signature_alone_is_not_enough():
    headers = {**HEADERS, PREVIOUS_SIGNATURE_HEADER: HEADERS["X-Webhook-Signature"]}
    del headers["X-Webhook-Signature"]

    assert "X-Webhook-Signature is missing" in refusal(vector.BODY, headers, vector.SECRET)


def test_a_wrong_previous_signature_is_ignored():
    headers = {**HEADERS, PREVIOUS_SIGNATURE_HEADER: "sha256=" + "0" * 64}

    assert verify(vector.BODY, headers, vector.SECRET, now=NOW).id
    assert "signature does not match" in refusal(vector.BODY, headers, "another secret")


SIGNATURE = HEADERS["X-Webhook-Signature"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("X-Webhook-Signature", None, id="no signature"),
        pytest.param("X-Webhook-Signature", "", id="empty signature"),
        pytest.param("X-Webhook-Signature", SIGNATURE.removeprefix("sha256="), id="signature without its prefix"),
        pytest.param("X-Webhook-Signature", SIGNATURE.upper(), id="signature in upper case"),
        pytest.param("X-Webhook-Signature", SIGNATURE[:-1], id="signature cut short"),
        pytest.param("X-Webhook-Signature", f"{SIGNATURE},{SIGNATURE}", id="two signatures joined by a comma"),
        pytest.param("X-Webhook-Signature", "sha256=ümläut\ud800", id="signature that is not ASCII"),
        pytest.param("X-Webhook-Signature", [SIGNATURE, SIGNATURE], id="two signatures"),
        pytest.param("X-Webhook-Signature", [], id="no value"),
        pytest.param("X-Webhook-Signature", 7, id="a number"),
        pytest.param("x-webhook-signature", SIGNATURE, id="the same header in another case as well"),
        pytest.param("X-Webhook-Timestamp", None, id="no timestamp"),
        pytest.param("X-Webhook-Timestamp", "1767268801", id="another timestamp"),
        pytest.param("X-Webhook-Event", None, id="no event type"),
        pytest.param("X-Webhook-Event", "ppt.generation.failed", id="another event type"),
        pytest.param("X-Webhook-Event", "PPT.GENERATION.COMPLETED", id="event type in upper case"),
    ],
)
def test_a_missing_or_wrong_header_is_refused(name, value):
    headers = {**HEADERS, name: value}

    message = refusal(vector.BODY, {key: each for key, each in headers.items() if each is not None}, vector.SECRET)

    assert name.lower() in message.lower() or "signature" in message


@pytest.mark.parametrize(
    "timestamp",
    [
        pytest.param("1767268800.0", id="fraction"),
        pytest.param("-1767268800", id="negative"),
        pytest.param(" 1767268800", id="space"),
        pytest.param("1_767_268_800", id="underscores"),
        pytest.param("١٧٦٧٢٦٨٨٠٠", id="digits of another script"),
        pytest.param("1" * 5000, id="5,000 digits"),
    ],
)
def test_a_malformed_timestamp_is_refused_even_if_signed(timestamp):
    headers = {
        **HEADERS,
        "X-Webhook-Timestamp": timestamp,
        "X-Webhook-Signature": sign(vector.SECRET, timestamp, vector.BODY),
    }

    assert "not a Unix time" in refusal(vector.BODY, headers, vector.SECRET, tolerance=None)


def test_one_changed_byte_of_the_body_is_refused():
    tampered = vector.BODY.replace(b'"cost":10', b'"cost":11')

    assert "signature does not match" in refusal(tampered, HEADERS, vector.SECRET)


def test_another_secret_is_refused_and_neither_is_quoted():
    message = refusal(vector.BODY, HEADERS, "a wrong secret")

    assert "signature does not match" in message
    assert "a wrong secret" not in message
    assert SIGNATURE not in message


@pytest.mark.parametrize("seconds", [-300, -1, 0, 299, 300])
def test_a_timestamp_within_five_minutes_is_accepted(seconds):
    assert verify(vector.BODY, HEADERS, vector.SECRET, now=NOW + timedelta(seconds=seconds)).id


@pytest.mark.parametrize("seconds", [-301, 301, 86_400])
def test_a_timestamp_further_away_is_refused_in_either_direction(seconds):
    message = refusal(vector.BODY, HEADERS, vector.SECRET, now=NOW + timedelta(seconds=seconds))

    assert "more than 300 seconds away" in message


@pytest.mark.parametrize("tolerance", [timedelta(seconds=10), 10, 10.0])
def test_the_tolerance_is_a_timedelta_or_seconds(tolerance):
    late = NOW + timedelta(seconds=11)

    assert "more than 10 seconds away" in refusal(vector.BODY, HEADERS, vector.SECRET, tolerance=tolerance, now=late)


def test_without_a_tolerance_any_age_is_accepted():
    assert verify(vector.BODY, HEADERS, vector.SECRET, tolerance=None).id


def test_the_machines_time_is_the_default(monkeypatch):
    monkeypatch.setattr("time.time", lambda: vector.TIMESTAMP + 301.0)

    with pytest.raises(WebhookVerificationError, match="300 seconds away"):
        verify(vector.BODY, HEADERS, vector.SECRET)


def test_the_verification_message_is_answered_with_its_challenge():
    event = received(challenge_body("abc"), event_type="webhook.verification")

    assert (event.id, event.created, event.is_verification) == (None, None, True)
    assert challenge_answer(event) == {"challenge": "abc"}


def test_no_other_event_has_a_challenge():
    event = received(json.dumps(EVENT | {"data": {"challenge": "abc"}}).encode())

    with pytest.raises(ValueError, match=r"file\.deleted has no challenge"):
        challenge_answer(event)


def test_additional_fields_are_accepted():
    body = json.dumps(EVENT | {"version": 2, "data": {"file_id": "file_1", "new": [1]}}).encode()

    assert received(body).data == {"file_id": "file_1", "new": [1]}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="array"),
        pytest.param(b"[" * 200_000, id="nested 200,000 deep"),
        pytest.param(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, id="objects nested 100,000 deep"),
        pytest.param(b"1" * 5000, id="5,000 digits"),
        pytest.param(json.dumps(EVENT).encode("utf-16"), id="UTF-16"),
        pytest.param(json.dumps(EVENT | {"data": {"x": float("nan")}}).encode(), id="NaN"),
        pytest.param(json.dumps(EVENT | {"data": None}).encode(), id="no data"),
        pytest.param(json.dumps(EVENT | {"data": []}).encode(), id="data is a list"),
        pytest.param(json.dumps(EVENT | {"type": 7}).encode(), id="type is a number"),
        pytest.param(json.dumps(EVENT | {"type": None}).encode(), id="no type"),
        pytest.param(json.dumps(EVENT | {"id": 7}).encode(), id="id is a number"),
        pytest.param(json.dumps(EVENT | {"id": ""}).encode(), id="empty id"),
        pytest.param(json.dumps(EVENT | {"created": 7}).encode(), id="created is a number"),
        pytest.param(json.dumps(EVENT | {"created": "yesterday"}).encode(), id="created is no time"),
        pytest.param(json.dumps(EVENT | {"created": "2026-01-01T12:00:00"}).encode(), id="created has no zone"),
        pytest.param(json.dumps(EVENT | {"created": "0001-01-01T00:00:00+14:00"}).encode(), id="before the year 1"),
        pytest.param(json.dumps(EVENT | {"created": "\ud800"}).encode(), id="created is a lone surrogate"),
    ],
)
def test_a_signed_body_with_another_structure_is_refused(body):
    assert refusal(body, headers_for(body))


@pytest.mark.parametrize(
    "data", [{}, {"challenge": None}, {"challenge": 7}, {"challenge": ""}, {"challenge": ["x"]}], ids=str
)
def test_a_verification_message_without_a_challenge_is_refused(data):
    body = json.dumps({"type": "webhook.verification", "data": data}).encode()

    assert "challenge" in refusal(body, headers_for(body, event_type="webhook.verification"))


@pytest.mark.parametrize("body", [vector.BODY.decode(), None, 7, {"id": "evt_1"}], ids=["str", "None", "int", "dict"])
def test_a_body_other_than_bytes_is_refused_with_the_remedy(body):
    assert "pass the raw bytes" in refusal(body, HEADERS, vector.SECRET)


@pytest.mark.parametrize("headers", [None, 7, "X-Webhook-Event: a.b", [("X-Webhook-Event", "a.b")]], ids=repr)
def test_headers_other_than_a_mapping_are_refused(headers):
    assert "not a mapping" in refusal(vector.BODY, headers)


def test_a_duplicate_header_is_refused():
    headers = Message()
    for name, value in [*HEADERS.items(), ("X-Webhook-Event", "ppt.generation.completed")]:
        headers[name] = value

    assert "X-Webhook-Event must be present exactly once" in refusal(vector.BODY, headers, vector.SECRET)


@pytest.mark.parametrize("secret", ["", [], (), ["", "x"], [None]], ids=repr)
def test_an_empty_secret_raises_value_error(secret):
    with pytest.raises(ValueError, match="secret is empty") as caught:
        verify(vector.BODY, HEADERS, secret, now=NOW)

    assert not isinstance(caught.value, WebhookVerificationError)


def test_a_received_event_cannot_be_changed():
    event = verify(vector.BODY, HEADERS, vector.SECRET, now=NOW)

    with pytest.raises(AttributeError):
        event.type = "user.registered"


OUR_NAMES = st.sampled_from(
    ["X-Webhook-Signature", "x-webhook-timestamp", "X-WEBHOOK-EVENT", PREVIOUS_SIGNATURE_HEADER]
)
ANY_TEXT = st.text(st.characters())
ANY_VALUE = ANY_TEXT | st.none() | st.integers() | st.binary() | st.lists(ANY_TEXT | st.binary(), max_size=2)
ANY_NAME = OUR_NAMES | ANY_TEXT | st.binary() | st.none() | st.integers()
ANY_BODY = st.binary() | ANY_TEXT | st.none() | st.integers()


@settings(deadline=None)
@given(body=ANY_BODY, headers=st.dictionaries(ANY_NAME, ANY_VALUE, max_size=5))
def test_any_unsigned_request_raises_only_the_documented_error(body, headers):
    with pytest.raises(WebhookVerificationError):
        verify(body, headers, SECRET)


def signed(body, event_type):
    return {**headers_for(body), "X-Webhook-Event": event_type}


def is_verified_or_refused(body, event_type):
    try:
        event = verify(body, signed(body, event_type), SECRET, now=NOW)
    except WebhookVerificationError as error:
        str(error).encode()
    else:
        assert event.type == event_type
        assert event.is_verification or (event.id and event.created.tzinfo is UTC)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)
TYPES = st.sampled_from(["file.deleted", "webhook.verification", "webhook.retry"])


@settings(deadline=None)
@given(body=st.binary())
@example(body=b'{"a":' * 5000)
def test_any_signed_bytes_raise_only_the_documented_error(body):
    with pytest.raises(WebhookVerificationError):
        verify(body, signed(body, "file.deleted"), SECRET, now=NOW)


@settings(deadline=None)
@given(
    message=st.fixed_dictionaries(
        {},
        optional={
            "id": JSON,
            "type": TYPES | JSON,
            "created": JSON
            | st.datetimes().map(str)
            | st.sampled_from([EVENT["created"], "9999-12-31T23:59:59-14:00"]),
            "data": JSON | st.fixed_dictionaries({"challenge": JSON}),
        },
    ),
    event_type=TYPES,
)
def test_any_signed_json_is_an_event_or_raises_the_documented_error(message, event_type):
    is_verified_or_refused(json.dumps(message).encode(), event_type)


@settings(deadline=None)
@given(position=st.integers(0, len(vector.BODY) - 1), flip=st.integers(1, 255))
def test_every_changed_byte_is_detected(position, flip):
    body = bytearray(vector.BODY)
    body[position] ^= flip

    refusal(bytes(body), HEADERS, vector.SECRET)


def test_verification_works_without_django_and_pydantic():
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['django', 'pydantic', 'celery', 'requests', 'rest_framework']))\n"
        "from webhooks_app.receiver import challenge_answer, verify\n"
        "from webhooks_app.exceptions import WebhookVerificationError\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_timestamp_is_signed_as_written_in_the_header():
    body = json.dumps(EVENT).encode()
    headers = {
        "X-Webhook-Signature": sign(SECRET, "001767268800", body),
        "X-Webhook-Timestamp": "001767268800",
        "X-Webhook-Event": "file.deleted",
    }

    assert verify(body, headers, SECRET, now=NOW).id == "evt_1"
