"""The REST API, from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from webhooks_app.api.openapi import document
from webhooks_app.api.urls import urlpatterns
from webhooks_app.event_types import INTERNAL_EVENT_TYPES
from webhooks_app.owners import public_event_types

Schema = Mapping[str, Any]

PROBLEM_FROM = 400
"""The lowest status of an error."""


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the API at ``/v1``."""
    return document(urlpatterns, "/v1")


def rest_api() -> str:
    """Return a section for each group of operations, one for the errors, and one for the schemas."""
    found = openapi_document()
    groups: dict[str, list[str]] = {}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).extend(_operation(method.upper(), path, operation))
    lines = [line for group, section in groups.items() for line in (f"## {group}", "", *section)]
    return "\n".join([*lines, *_errors(found), *_schemas(found["components"]["schemas"])])


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield from (f"### {operation['summary']}", "", "```text", f"{method} {path}", "```", "")
    if description := operation.get("description"):
        yield from (description, "")
    yield from _parameters([each for each in operation.get("parameters", ()) if each["in"] != "path"])
    body = operation.get("requestBody")
    if body:
        (content,) = body["content"].values()
        optional = "" if body.get("required") else " (optional)"
        yield from (f"Request body{optional}: {_type(content['schema'])}", "", *_examples(content))
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
        yield from _examples(contents[0])


def _examples(content: Schema) -> Iterator[str]:
    for example in content.get("examples", {}).values():
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


def _schemas(schemas: Mapping[str, Schema]) -> Iterator[str]:
    """Yield a section for each schema of the API itself; those of event types are on a page of their own."""
    events = {event_type.name for event_type in (*public_event_types(), *INTERNAL_EVENT_TYPES)}
    yield from ("## Schemas", "")
    for name, schema in schemas.items():
        if name in events or any(name.startswith(f"{event}.") for event in events):
            continue
        yield from (f"(schema-{name.lower()})=", "", f"### {name}", "")
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
        return _link(reference.rpartition("/")[2])
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


def _link(name: str) -> str:
    return f"[{name}](#schema-{name.lower()})"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
