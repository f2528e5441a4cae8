"""Compatibility of the published schemas, and detection of breaking changes."""

from typing import Any

import pytest
from pydantic import BaseModel

from webhooks_app.catalogue import breaking_changes
from webhooks_app.event_types import EventType

from . import schema_snapshot


@pytest.mark.parametrize("name", schema_snapshot.promised())
def test_the_published_schemas_remain_compatible(name):
    assert name in schema_snapshot.current(), f"{name} was removed. This breaks its receivers, so it requires /v2."

    changes = breaking_changes(schema_snapshot.promised()[name], schema_snapshot.current()[name])

    assert not changes, f"{name} breaks its receivers, which needs /v2: {' '.join(changes)}"


def test_every_type_has_a_published_schema():
    new = schema_snapshot.current().keys() - schema_snapshot.promised().keys()

    assert not new, (
        f"Publish new types and fields with `python -m {schema_snapshot.__name__}`: {', '.join(sorted(new))}"
    )


class Inner(BaseModel):
    x: int
    y: int | None = None


class Before(BaseModel):
    title: str
    pages: int
    note: str | None = None
    inner: Inner
    more: list[Inner] = []
    maybe: Inner | None = None


EXAMPLE = {"title": "t", "pages": 1, "inner": {"x": 1}}


def schema_of(data_model, example=EXAMPLE):
    return EventType(name="a.b", description="…", data_model=data_model, example=example).json_schema()


def changed(**fields: Any):
    """Return the model with these annotations; None removes the field."""
    annotations = {name: field for name, field in (Before.__annotations__ | fields).items() if field is not None}
    defaults = {
        name: default for name, default in {"note": None, "more": [], "maybe": None}.items() if name in annotations
    }
    return type("After", (BaseModel,), {"__annotations__": annotations, "__module__": __name__} | defaults)


class InnerRetyped(BaseModel):
    x: str
    y: int | None = None


class InnerCut(BaseModel):
    x: int


class InnerGrown(Inner):
    z: int = 0


INNER_RETYPED = {**EXAMPLE, "inner": {"x": "1"}}


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(changed(), id="nothing but the model's name"),
        pytest.param(changed(colour=str | None), id="a new optional field"),
        pytest.param(changed(inner=InnerGrown), id="a new field further in"),
    ],
)
def test_additions_and_a_new_model_name_are_compatible(after):
    example = EXAMPLE | ({"colour": "red"} if "colour" in after.model_fields else {})

    assert breaking_changes(schema_of(Before), schema_of(after, example)) == []


@pytest.mark.parametrize(
    ("after", "example", "sentence"),
    [
        pytest.param(changed(pages=None), {"title": "t", "inner": {"x": 1}}, "data.pages was removed.", id="removed"),
        pytest.param(changed(note=None), EXAMPLE, "data.note was removed.", id="optional one removed"),
        pytest.param(
            changed(pages=float),
            EXAMPLE,
            "data.pages was {'type': 'integer'} and is {'type': 'number'}.",
            id="retyped",
        ),
        pytest.param(
            changed(inner=InnerRetyped),
            INNER_RETYPED,
            "data.inner.x was {'type': 'integer'} and is {'type': 'string'}.",
            id="retyped further in",
        ),
        pytest.param(changed(inner=InnerCut), EXAMPLE, "data.inner.y was removed.", id="removed further in"),
        pytest.param(changed(more=list[InnerCut]), EXAMPLE, "data.more[].y was removed.", id="removed in a list"),
        pytest.param(changed(maybe=InnerCut | None), EXAMPLE, "data.maybe.y was removed.", id="removed in an optional"),
    ],
)
def test_removals_and_changed_types_are_named(after, example, sentence):
    assert breaking_changes(schema_of(Before), schema_of(after, example)) == [sentence]


def test_a_field_that_becomes_optional_is_named():
    class Looser(Before):
        pages: int = 0

    assert breaking_changes(schema_of(Before), schema_of(Looser)) == [
        "data.pages was always present and is now optional."
    ]


def test_a_field_that_becomes_nullable_is_named():
    class Nullable(Before):
        pages: int | None

    [sentence] = breaking_changes(schema_of(Before), schema_of(Nullable))

    assert sentence.startswith("data.pages was {'type': 'integer'}")


def test_recursive_models_are_compared():
    class Tree(BaseModel):
        name: str
        children: list["Tree"] = []

    class Bush(BaseModel):
        name: int
        children: list["Bush"] = []

    Tree.model_rebuild(), Bush.model_rebuild()
    tree, bush = schema_of(Tree, {"name": "a"}), schema_of(Bush, {"name": 1})

    assert breaking_changes(tree, tree) == []
    assert breaking_changes(tree, bush) != []
