"""The specification's 13 event types and the two internal messages."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from jsonschema import Draft202012Validator

from webhooks_app.event_types import (
    INTERNAL_EVENT_TYPES,
    RETRY_NOTICE,
    VERIFICATION,
    EventTypeRegistry,
    retry_notice_data,
)
from webhooks_app.event_types.builtin import PRESENTATION_EVENT_TYPES
from webhooks_app.exceptions import InvalidEventDataError
from webhooks_app.protocol.handshake import challenge_body
from webhooks_app.receiver.verification import VERIFICATION_TYPE

CATALOGUE = EventTypeRegistry(*PRESENTATION_EVENT_TYPES)
EVERY_TYPE = [pytest.param(each, id=each.name) for each in (*PRESENTATION_EVENT_TYPES, *INTERNAL_EVENT_TYPES)]

COMPLETED = {
    "ppt_id": "ppt_1",
    "user_id": "user_1",
    "title": "Rückblick",
    "pages": 12,
    "download_url": "https://api.example.com/v1/ppt/ppt_1/download",
    "generation_time": 12.5,
    "cost": 10,
}


def test_the_catalogue_matches_the_specification():
    table = {
        group: [(each.name, each.description) for each in members] for group, members in CATALOGUE.groups().items()
    }

    assert table == {
        "PPT generation": [
            ("ppt.generation.started", "Generation started"),
            ("ppt.generation.completed", "Generation completed"),
            ("ppt.generation.failed", "Generation failed"),
            ("ppt.generation.cancelled", "Generation cancelled"),
        ],
        "Edit": [
            ("ppt.edit.started", "Editing started"),
            ("ppt.edit.completed", "Editing completed"),
            ("ppt.edit.failed", "Editing failed"),
        ],
        "File": [
            ("file.uploaded", "Upload completed"),
            ("file.processed", "Processing completed"),
            ("file.deleted", "File deleted"),
        ],
        "User": [
            ("user.registered", "User registered"),
            ("user.subscribed", "User subscribed"),
            ("user.unsubscribed", "User unsubscribed"),
        ],
    }


def test_a_completed_generation_has_the_specifications_fields_in_its_order():
    sent = CATALOGUE.get("ppt.generation.completed").validate(COMPLETED)

    assert json.dumps(sent) == json.dumps(COMPLETED)


@pytest.mark.parametrize("field", COMPLETED)
def test_a_completed_generation_needs_every_field(field):
    data = {name: value for name, value in COMPLETED.items() if name != field}

    with pytest.raises(InvalidEventDataError) as caught:
        CATALOGUE.get("ppt.generation.completed").validate(data)

    assert caught.value.errors == {field: "is missing"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("ppt_id", "1", id="id without its prefix"),
        pytest.param("ppt_id", "ppt_", id="prefix without an id"),
        pytest.param("user_id", "ppt_1", id="id with another prefix"),
        pytest.param("user_id", 1, id="id as a number"),
        pytest.param("pages", 12.5, id="half a page"),
        pytest.param("pages", -1, id="negative pages"),
        pytest.param("cost", 1.5, id="half a credit"),
        pytest.param("generation_time", "12", id="time as text"),
        pytest.param("generation_time", -0.1, id="negative time"),
        pytest.param("download_url", "ftp://example.com/x", id="address of another kind"),
        pytest.param("download_url", "/v1/ppt/ppt_1/download", id="address without a host"),
    ],
)
def test_a_completed_generation_is_refused_by_its_invalid_field(field, value):
    with pytest.raises(InvalidEventDataError) as caught:
        CATALOGUE.get("ppt.generation.completed").validate(COMPLETED | {field: value})

    assert list(caught.value.errors) == [field]


def test_a_failed_generation_needs_only_the_error():
    failed = CATALOGUE.get("ppt.generation.failed")

    assert failed.validate({"error": "no outline"}) == {"error": "no outline"}
    assert failed.validate({"error": "no outline", "ppt_id": "ppt_1"}) == {"error": "no outline", "ppt_id": "ppt_1"}
    with pytest.raises(InvalidEventDataError):
        failed.validate({"ppt_id": "ppt_1"})


@pytest.mark.parametrize("event_type", EVERY_TYPE)
def test_the_example_fits_the_published_schema(event_type):
    schema = event_type.json_schema()

    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(event_type.example)


@pytest.mark.parametrize("event_type", EVERY_TYPE)
def test_every_field_has_a_description_and_an_example(event_type):
    fields = event_type.json_schema()["properties"]

    assert [name for name, field in fields.items() if "'description': " not in str(field)] == []
    assert list(event_type.example) == list(fields)


@pytest.mark.parametrize("event_type", EVERY_TYPE)
def test_every_id_has_the_specifications_prefix(event_type):
    prefixes = {"ppt_id": "ppt_", "user_id": "user_", "file_id": "file_", "original_event_id": "evt_"}

    for name, value in event_type.example.items():
        if name.endswith("_id"):
            assert re.fullmatch(rf"{prefixes[name]}[0-9a-z]+", value)


def test_a_retry_notice_has_the_specifications_body():
    data = retry_notice_data(
        original_event_id="evt_1",
        retry_count=2,
        next_retry_at=datetime(2026, 1, 31, 13, 0, 5, tzinfo=timezone(timedelta(hours=1))),
    )

    assert data == {"original_event_id": "evt_1", "retry_count": 2, "next_retry_at": "2026-01-31T12:00:05.000000Z"}
    assert RETRY_NOTICE.name == "webhook.retry"


@pytest.mark.parametrize(
    "wrong",
    [{"original_event_id": "dlv_1"}, {"retry_count": 0}, {"next_retry_at": datetime(2026, 1, 31)}],  # noqa: DTZ001
    ids=["id of a delivery", "retry 0", "time without a zone"],
)
def test_an_invalid_retry_notice_is_refused(wrong):
    fields = {"original_event_id": "evt_1", "retry_count": 1, "next_retry_at": datetime.now(UTC)}

    with pytest.raises(InvalidEventDataError) as caught:
        retry_notice_data(**fields | wrong)

    assert caught.value.errors.keys() == wrong.keys()


def test_the_documented_verification_matches_the_sent_one():
    body = json.loads(challenge_body(VERIFICATION.example["challenge"]))

    assert body == {"type": VERIFICATION.name, "data": VERIFICATION.example}
    assert VERIFICATION.name == VERIFICATION_TYPE


def test_every_identifier_of_the_data_is_a_reference() -> None:
    for event_type in PRESENTATION_EVENT_TYPES:
        identifiers = [name for name in ("ppt_id", "file_id", "user_id") if name in event_type.data_model.model_fields]
        assert list(event_type.reference_fields) == identifiers, event_type.name
