"""The REST API, from its OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from webhooks_app.api.openapi import document
from webhooks_app.api.urls import urlpatterns
from webhooks_app.event_types import INTERNAL_EVENT_TYPES
from webhooks_app.owners import public_event_types

from .samples import sample_of, samples

Schema = Mapping[str, Any]

PROBLEM_FROM = 400
"""The lowest status of an error."""


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the API at ``/v1``."""
    return document(urlpatterns, "/v1")


@dataclass(frozen=True)
class Page:
    """A page with the operations of some groups, either those that act on one webhook or the others."""

    groups: frozenset[str]
    acts: bool = False

    def has(self, group: str, path: str, method: str) -> bool:
        """Return True if the page has this operation."""
        acts = method == "post" and path.startswith("/v1/webhooks/{webhook_id}/")
        return group in self.groups and acts == self.acts


PAGES = {
    "rest_api_webhooks": Page(frozenset({"Webhooks"})),
    "rest_api_webhook_actions": Page(frozenset({"Webhooks"}), acts=True),
    "rest_api_events": Page(frozenset({"Events", "Event types"})),
    "rest_api_deliveries": Page(frozenset({"Deliveries"})),
    "rest_api_replays": Page(frozenset({"Replays"})),
}


def operations(page: Page | None = None) -> Iterator[tuple[str, str, Schema]]:
    """Yield the path, the method and the operation of each operation of a page, or of all."""
    for path, methods in openapi_document()["paths"].items():
        for method, operation in methods.items():
            if page is None or page.has(operation["tags"][0], path, method):
                yield path, method, operation


def rest_api() -> str:
    """Return a table of all operations, and a section for the errors."""
    rows = [
        f"| `{method.upper()} {path}` | [{operation['summary']}](#{_label(operation)}) |"
        for path, method, operation in operations()
    ]
    return "\n".join(["| request | operation |", "|---|---|", *rows, "", *_errors(openapi_document())])


def rest_api_page(page: Page) -> str:
    """Return a section for each operation of a page."""
    sections = (_operation(path, method, operation) for path, method, operation in operations(page))
    return "\n".join(chain.from_iterable(sections))


def rest_api_responses() -> str:
    """Return a section for each schema of a response."""
    return "\n".join(_schemas(_of_responses()))


def rest_api_requests() -> str:
    """Return a section for each schema that only requests have."""
    return "\n".join(_schemas(_named_schemas().keys() - _of_responses()))


def _label(operation: Schema) -> str:
    return f"operation-{operation['operationId'].replace('_', '-')}"


def _operation(path: str, method: str, operation: Schema) -> Iterator[str]:
    yield from (f"({_label(operation)})=", "", f"## {operation['summary']}", "")
    yield from ("```text", f"{method.upper()} {path}", "```", "")
    if description := operation.get("description"):
        yield from (description, "")
    yield from _parameters([each for each in operation.get("parameters", ()) if each["in"] != "path"])
    body = operation.get("requestBody")
    if body:
        (content,) = body["content"].values()
        optional = "" if body.get("required") else " (optional)"
        yield from (f"Request body{optional}: {_type(content['schema'])}", "")
    yield from samples(sample_of(openapi_document(), path, method))
    for status, answer in operation["responses"].items():
        if int(status) < PROBLEM_FROM:
            yield from _answer(status, answer)
    problems = [status for status in operation["responses"] if int(status) >= PROBLEM_FROM]
    yield from (f"[Errors](#schema-errors): {', '.join(problems)}", "")


def _parameters(parameters: list[Schema]) -> Iterator[str]:
    if parameters:
        yield from ("| parameter | in | type | description |", "|---|---|---|---|")
        for each in parameters:
            description = _cell(each.get("description", ""))
            yield f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} | {description} |"
        yield ""


def _answer(status: str, answer: Schema) -> Iterator[str]:
    contents = list(answer.get("content", {}).values())
    schema = f": {_type(contents[0]['schema'])}" if contents else ", without a body"
    yield from (f"Response: status {status}{schema}", "")
    if contents:
        for example in contents[0].get("examples", {}).values():
            yield from ("```json", json.dumps(example["value"], indent=2, ensure_ascii=False), "```", "")


def _errors(found: Schema) -> Iterator[str]:
    descriptions = {
        status: answer["description"]
        for operations in found["paths"].values()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        if int(status) >= PROBLEM_FROM
    }
    yield from ("(schema-errors)=", "", "## Errors", "", f"Each error has the body {_link('Problem')}.", "")
    yield from ("| status | meaning |", "|---|---|")
    yield from (f"| {status} | {_cell(descriptions[status])} |" for status in sorted(descriptions))
    yield ""


def _named_schemas() -> dict[str, Schema]:
    """Return the schemas with a section: not those of event types, pages and values, which other places describe."""
    events = {event_type.name for event_type in (*public_event_types(), *INTERNAL_EVENT_TYPES)}
    return {
        name: schema
        for name, schema in openapi_document()["components"]["schemas"].items()
        if "enum" not in schema
        and not name.startswith("Paginated")
        and not any(name == event or name.startswith(f"{event}.") for event in events)
    }


@cache
def _of_responses() -> frozenset[str]:
    """Return the names of the schemas that a response can contain."""
    schemas = openapi_document()["components"]["schemas"]
    found: set[str] = set()
    left = {name for _, _, operation in operations() for name in _references(operation["responses"])}
    while left:
        found |= left
        left = {each for name in left for each in _references(schemas[name])} - found
    return frozenset(found)


def _references(part: Schema) -> set[str]:
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(part)))


def _schemas(names: AbstractSet[str]) -> Iterator[str]:
    for name, schema in _named_schemas().items():
        if name not in names:
            continue
        yield from (f"(schema-{name.lower()})=", "", f"## {name}", "")
        if description := schema.get("description"):
            yield from (" ".join(description.split()), "")
        yield from _fields(schema)


def _fields(schema: Schema) -> Iterator[str]:
    if "properties" not in schema:
        yield from (_type(schema), "")
        return
    yield from ("| field | type | required | description |", "|---|---|---|---|")
    for name, field in schema["properties"].items():
        required = "yes" if name in schema.get("required", ()) else "no"
        yield f"| `{name}` | {_type(field)} | {required} | {_cell(field.get('description', ''))} |"
    yield ""


def _type(schema: Schema) -> str:
    if reference := schema.get("$ref"):
        return _reference(reference.rpartition("/")[2])
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(choice) for choice in schema[word]))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    kinds = kind if isinstance(kind, str) else " or ".join(kind)
    return f"{kinds} ({schema['format']})" if "format" in schema else kinds


def _reference(name: str) -> str:
    schema = openapi_document()["components"]["schemas"][name]
    if "enum" in schema:
        return _type(schema)
    if name.startswith("Paginated"):
        return f"a [page](../api.md#lists) of {_type(schema['properties']['results']['items'])}"
    return _link(name)


def _link(name: str) -> str:
    return f"[{name}](#schema-{name.lower()})"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
