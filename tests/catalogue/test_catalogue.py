"""The event catalogue as documents, and its comparison with an earlier version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management.base import CommandError
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, Field

from webhooks_app.catalogue import markdown_page
from webhooks_app.event_types import EventType, registry
from webhooks_app.owners import UserOwners

from ..management.conftest import run_command as run


class Line(BaseModel):
    product: str
    amount: int = Field(description="In cents | whole.")


class Order(BaseModel):
    order_id: str
    lines: list[Line]
    note: str | None = None


def order_created(**changes: Any) -> EventType[Any]:
    example = {"order_id": "ord_1", "lines": [{"product": "pen", "amount": 100}]}
    values = {"name": "order.created", "group": "Orders", "description": "An order."}
    return EventType(**{"data_model": Order, "example": example, **values, **changes})


class NoOrders(UserOwners):
    def sees(self, owner, event_type):
        return not event_type.name.startswith("order.")


@pytest.fixture
def catalogue(tmp_path):
    """A file with the current catalogue, including ``order.created``."""
    path = tmp_path / "catalogue.json"
    with registry.temporarily(order_created()):
        path.write_text(run("export_event_catalogue").stdout)
    return path


def test_the_json_form_has_the_schema_and_the_example_of_each_type():
    items = json.loads(run("export_event_catalogue").stdout)["event_types"]

    subscribable = [event_type for event_type in registry if not event_type.operational]
    assert [item["name"] for item in items] == [event_type.name for event_type in subscribable]
    assert [item["schema"] for item in items] == [event_type.json_schema() for event_type in subscribable]
    assert [item["example"] for item in items] == [event_type.example for event_type in subscribable]


def test_the_openapi_form_is_a_valid_document():
    document = json.loads(run("export_event_catalogue", "--format", "openapi", "--title", "Our events").stdout)

    OpenAPIV31SpecValidator(document).validate()
    assert document["info"]["title"] == "Our events"
    assert "webhook.verification" in document["webhooks"]


def test_the_markdown_form_lists_nested_fields_and_shows_the_request_body():
    page = markdown_page([order_created()], title="Events")

    assert page.startswith("# Events\n\n## Orders\n\n### `order.created`\n\nAn order.\n")
    assert "| `data.lines` | array of object | yes |  |" in page
    assert "| `data.lines[].amount` | integer | yes | In cents \\| whole. |" in page
    assert "| `data.note` | string | null | no |  |" in page.replace("\\|", "|")
    assert '"type": "order.created"' in page


def test_an_unchanged_catalogue_passes(catalogue):
    with registry.temporarily(order_created()):
        assert run("check_event_types", "--against", str(catalogue)).stderr == "No breaking change.\n"


def test_a_removed_type_is_a_breaking_change(catalogue):
    with pytest.raises(CommandError, match=r"1 breaking change:\n  order.created: the event type was removed."):
        run("check_event_types", "--against", str(catalogue))


def test_a_hidden_type_is_not_removed(catalogue, settings):
    settings.WEBHOOKS_OWNERS = f"{__name__}.NoOrders"

    with registry.temporarily(order_created(), order_created(name="order.deleted")):
        output = run("check_event_types", "--against", str(catalogue))

    assert output.stderr == "No breaking change.\n"


def test_a_removed_field_is_a_breaking_change(catalogue):
    class Shorter(BaseModel):
        order_id: str

    shorter = order_created(data_model=Shorter, example={"order_id": "ord_1"})
    with registry.temporarily(shorter), pytest.raises(CommandError, match=r"order.created: data.lines was removed"):
        run("check_event_types", "--against", str(catalogue))


def test_a_new_type_is_compatible(catalogue):
    with registry.temporarily(order_created(), order_created(name="order.deleted")):
        output = run("check_event_types", "--against", str(catalogue))

    assert output.stderr == "order.deleted is new.\nNo breaking change.\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "Invalid JSON"),
        ("[]", "Input should be an object"),
        ('{"event_types": [{"name": "a.b"}]}', r"event_types\.0\.schema: Field required"),
    ],
    ids=["no JSON", "no object", "no schema"],
)
def test_another_file_is_refused_with_the_reason(tmp_path, content, problem):
    path = tmp_path / "other.json"
    path.write_text(content)

    with pytest.raises(CommandError, match=problem):
        run("check_event_types", "--against", str(path))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CommandError, match="could not be read: No such file"):
        run("check_event_types", "--against", str(tmp_path / "missing.json"))
