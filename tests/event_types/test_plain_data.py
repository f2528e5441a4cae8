"""Plain data, which is walked through once, beside data that is examined before and after its conversion."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_serializer

from webhooks_app.event_types import EventType, UtcTime, base
from webhooks_app.exceptions import InvalidEventDataError
from webhooks_app.protocol import json_data


class Color(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Inner(BaseModel, extra="allow"):
    a: Any = None
    note: str | None = None


class Anything(BaseModel, extra="allow"):
    a: Any = None
    inner: Inner | None = None
    inners: list[Inner] = []


class Aliased(Anything):
    named: str = Field(default="", alias="aliased")


class Serialized(Anything):
    @field_serializer("a")
    def as_text(self, value: Any) -> str:
        return f"\0{value}"


class Computed(Anything):
    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratio(self) -> float:
        return math.nan


class Timed(Anything):
    at: UtcTime = datetime(2026, 1, 1, tzinfo=UTC)


class Null(Anything):
    model_config = ConfigDict(ser_json_inf_nan="null")


class OwnDump(Anything):
    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {**super().model_dump(**options), "own": "\0"}


MODELS = [Anything, Aliased, Serialized, Computed, Timed, Null, OwnDump]
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\0", "\ud800", "é", 1 << 1023]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ODD = st.sampled_from(
    [
        Decimal("NaN"),
        Decimal(1),
        deque([1]),
        {1: 2},
        {("a",): 2},
        OrderedDict(a=math.inf),
        (1, math.nan),
        1j,
        Color.RED,
        Level.LOW,
        Text("\0"),
        {Text("a"): 1},
        datetime(2026, 1, 1),  # noqa: DTZ001
        datetime(2026, 1, 1, tzinfo=UTC),
        Inner(a=[Inner(note=None)]),
        Inner.model_construct(note=5),
        {"a": Serialized(a=1)},
        b"a",
        object(),
    ]
)
DATA = st.dictionaries(st.sampled_from(["a", "b", "aliased"]), PLAIN | ODD, max_size=3)


def outcome(event_type: EventType[Any], data: Any) -> tuple[str, str]:
    try:
        return "valid", repr(event_type.validate(data))
    except InvalidEventDataError as error:
        return "invalid", repr({path: str(problem) for path, problem in error.errors.items()})


@pytest.mark.parametrize("model", MODELS)
def test_data_has_the_same_outcome_as_after_a_full_examination(model: type[Anything]) -> None:
    event_type = type_of(model)

    @settings(max_examples=60, deadline=None)
    @given(data=DATA, inner=DATA, inners=st.lists(DATA, max_size=2), as_model=st.booleans())
    def check(data: Any, inner: Any, inners: list[Any], as_model: bool) -> None:
        whole: Any = {**data, "inner": inner, "inners": inners}
        if as_model:
            whole = model.model_construct(
                **{**data, "inner": Inner(**inner), "inners": [Inner(**each) for each in inners]}
            )

        at_once = outcome(event_type, whole)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(base, "_dumps_fields_as_they_are", lambda model: False)
            assert at_once == outcome(event_type, whole)

    check()


@pytest.mark.parametrize("levels", range(json_data.MAX_DEPTH - 3, json_data.MAX_DEPTH + 2))
def test_data_is_nested_equally_deep(levels: int) -> None:
    nested: Any = 1
    for _ in range(levels):
        nested = {"a": [nested]} if levels % 2 else {"a": nested}

    at_once = outcome(type_of(Anything), nested)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_dumps_fields_as_they_are", lambda model: False)
        assert at_once == outcome(type_of(Anything), nested)


def test_plain_data_is_dumped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dumps: list[Any] = []
    dump = Anything.model_dump
    event_type = type_of(Anything)
    monkeypatch.setattr(base, "_dumps_fields_as_they_are", lambda model: True)
    monkeypatch.setattr(Anything, "model_dump", lambda self, **options: dumps.append(options) or dump(self, **options))

    event_type.validate({"a": {"b": [1, "x"]}})

    assert [options["mode"] for options in dumps] == ["json"]


def type_of(model: type[Anything]) -> EventType[Any]:
    event_type = object.__new__(EventType)
    for name, value in {"name": "a.b", "data_model": model, "example": {}}.items():
        object.__setattr__(event_type, name, value)
    return event_type
