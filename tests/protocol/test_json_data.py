"""The body of a delivery."""

import enum
import json
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks_app.exceptions import InvalidEventDataError
from webhooks_app.protocol.json_data import encode

CREATED = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


def encoded(data):
    return encode(id="evt_1", type="file.deleted", created=CREATED, data=data)


def errors_of(data):
    with pytest.raises(InvalidEventDataError) as caught:
        encoded(data)
    return caught.value.errors


def test_the_keys_are_in_the_order_of_the_specification_without_spaces():
    assert encoded({"file_id": "file_1", "n": [1, 2.5, None, True]}) == (
        b'{"id":"evt_1","type":"file.deleted","created":"2026-01-31T12:00:00.123456Z",'
        b'"data":{"file_id":"file_1","n":[1,2.5,null,true]}}'
    )


def test_text_is_sent_as_utf8_without_escapes():
    assert '"Rückblick 🎉"'.encode() in encoded({"title": "Rückblick 🎉"})


@pytest.mark.parametrize(
    ("created", "text"),
    [
        pytest.param(datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00.000000Z", id="whole second"),
        pytest.param(
            datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            "2026-01-31T06:30:00.000000Z",
            id="another zone",
        ),
        pytest.param(datetime(987, 1, 31, 12, tzinfo=UTC), "0987-01-31T12:00:00.000000Z", id="four digits of year"),
    ],
)
def test_created_is_utc_with_microseconds_and_a_z(created, text):
    body = encode(id="evt_1", type="file.deleted", created=created, data={})

    assert json.loads(body)["created"] == text


def test_a_created_without_a_time_zone_is_refused():
    with pytest.raises(ValueError, match="aware"):
        encode(id="evt_1", type="file.deleted", created=datetime(2026, 1, 31), data={})  # noqa: DTZ001


def test_mappings_and_enumerations_are_sent_as_their_values():
    class Colour(enum.StrEnum):
        RED = "red"

    body = encoded(MappingProxyType({"inner": MappingProxyType({"colour": Colour.RED}), "pair": (1, 2)}))

    assert json.loads(body)["data"] == {"inner": {"colour": "red"}, "pair": [1, 2]}


@pytest.mark.parametrize(
    ("data", "path", "problem"),
    [
        pytest.param({"a": [1, float("nan")]}, "a[1]", "nan is not a JSON number", id="NaN"),
        pytest.param({"a": float("-inf")}, "a", "-inf is not a JSON number", id="Infinity"),
        pytest.param({"a": {"b": "x\0"}}, "a.b", "contains NUL", id="NUL"),
        pytest.param({"a": {"b": "x\ud800"}}, "a.b", "contains a lone surrogate", id="lone surrogate"),
        pytest.param({"a": {1: "x"}}, "a", "has a key of type int; keys must be strings", id="key is a number"),
        pytest.param({None: 1}, "", "has a key of type NoneType; keys must be strings", id="key is None"),
        pytest.param({"x\0": 1}, "", "has the key x\\0, which contains NUL", id="NUL in a key"),
        pytest.param(
            {"\udfff": 1}, "", "has the key \\udfff, which contains a lone surrogate", id="surrogate in a key"
        ),
        pytest.param({"a": b"x"}, "a", "is of type bytes, which JSON does not have", id="bytes"),
        pytest.param({"a": CREATED}, "a", "is of type datetime, which JSON does not have", id="datetime"),
        pytest.param({"a": {1, 2}}, "a", "is of type set, which JSON does not have", id="set"),
        pytest.param({"a": 10**400}, "a", "is an integer of more than 1023 bits; send it as a string", id="huge"),
        pytest.param({"a": -(10**5000)}, "a", "is an integer of more than 1023 bits; send it as a string", id="5,000"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_path(data, path, problem):
    assert errors_of(data) == {path: problem}


def test_at_most_20_problems_are_named_together():
    assert len(errors_of({"a": "\0", "b": float("nan")})) == 2
    assert len(errors_of({"a": [float("nan")] * 10_000})) == 20


def nested(levels):
    data = {}
    for _ in range(levels - 1):
        data = {"in": data}
    return data


def test_32_levels_are_sent_and_33_are_not():
    assert json.loads(encoded(nested(32)))["data"] == nested(32)

    assert list(errors_of(nested(33)).values()) == ["is nested deeper than 32 levels"]


def test_recursive_data_is_refused_by_the_envelope():
    data = {}
    data["a"] = [data, data]

    assert "is nested deeper than 32 levels" in errors_of(data).values()


def test_an_error_is_short_and_printable_for_any_keys():
    with pytest.raises(InvalidEventDataError) as caught:
        encoded({"k" * 100_000: {"\ud800": {"x": float("nan")}}, "ü": float("nan")})

    message = str(caught.value)
    assert len(message.encode()) < 400
    assert "ü: nan" in message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(), json_values))
def test_data_is_either_decoded_unchanged_or_refused(data):
    try:
        body = encoded(data)
    except InvalidEventDataError as error:
        assert "NUL" in str(error) or "nested" in str(error)  # noqa: PT017
    else:
        assert json.loads(body.decode())["data"] == data


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters()), st.text(st.characters()) | st.floats() | st.binary() | st.integers()))
def test_any_data_is_either_valid_json_or_refused_with_one_error(data):
    try:
        body = encoded(data)
    except InvalidEventDataError as error:
        str(error).encode()
    else:
        json.loads(body.decode(), parse_constant=pytest.fail)
