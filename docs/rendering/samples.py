"""A request of the REST API in three languages, from the OpenAPI document."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SITE = "https://api.example.com"
IDENTIFIERS = {"webhook_id": "wh", "event_id": "evt", "delivery_id": "dlv", "replay_id": "rpl"}
"""The parameters of paths whose value is an identifier, with its prefix."""
MAX_WIDTH = 60
"""Characters of an object that stays in one line."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A request with example values. ``body`` is None without one."""

    method: str
    url: str
    body: Any
    has_answer: bool
    """Whether the response has a body."""


def sample_of(document: Mapping[str, Any], path: str, method: str) -> Sample:
    """Return the example of an operation."""
    operation = document["paths"][path][method]
    succeeded = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    return Sample(
        method=method.upper(),
        url=SITE + re.sub(r"\{(\w+)\}", lambda found: _parameter(document, found[1]), path),
        body=_body(document, operation.get("requestBody")),
        has_answer="content" in succeeded,
    )


def _parameter(document: Mapping[str, Any], name: str) -> str:
    """Return a value of the examples for a parameter of a path. Raise LookupError if there is none."""
    if name == "name":
        return str(next(iter(document["webhooks"])))
    found = re.search(rf'"({IDENTIFIERS[name]}_[0-9a-f]{{32}})"', json.dumps(document))
    if found is None:
        raise LookupError(f"No example has a value for {name}.")
    return found[1]


def _body(document: Mapping[str, Any], body: Mapping[str, Any] | None) -> Any:
    if body is None:
        return None
    (content,) = body["content"].values()
    for example in content.get("examples", {}).values():
        return example["value"]
    return _required(document, content["schema"]) if body.get("required") else None


def _required(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return a value for a schema without an example: its required fields, each with its first known value."""
    if "$ref" in schema:
        return _required(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "properties" in schema:
        return {name: _required(document, schema["properties"][name]) for name in schema["required"]}
    for part in schema.get("allOf", ()):
        return _required(document, part)
    return schema["enum"][0]


def samples(sample: Sample) -> Iterator[str]:
    """Yield the lines of the blocks, for the directive ``languages``."""
    yield ":::{languages}"
    for language, code in (("sh", curl(sample)), ("python", python(sample)), ("js", javascript(sample))):
        yield from (f"```{language}", code, "```", "")
    yield from (":::", "")


def curl(sample: Sample) -> str:
    """Return a command of a shell."""
    usual = "GET" if sample.body is None else "POST"
    method = "" if sample.method == usual else f"--request {sample.method} "
    options = ['-H "Authorization: Bearer $API_KEY"']
    if sample.body is not None:
        options += ['-H "Content-Type: application/json"', f"-d {shlex.quote(_json(sample.body))}"]
    return " \\\n  ".join([f"curl {method}{sample.url}", *options])


def python(sample: Sample) -> str:
    """Return code for the package ``requests``."""
    lines = [f'"{sample.url}",', """headers={"Authorization": f"Bearer {os.environ['API_KEY']}"},"""]
    if sample.body is not None:
        lines.append(f"json={_python(sample.body)},")
    called = "\n    ".join([f"response = requests.{sample.method.lower()}(", *lines, "timeout=10,"])
    shown = ["print(response.json())"] if sample.has_answer else []
    return "\n".join(["import os", "", "import requests", "", called, ")", "response.raise_for_status()", *shown])


def javascript(sample: Sample) -> str:
    """Return code for Node."""
    lines = [] if sample.method == "GET" else [f'method: "{sample.method}",']
    if sample.body is None:
        lines.append("headers: { Authorization: `Bearer ${process.env.API_KEY}` },")
    else:
        lines += ["headers: {", "  Authorization: `Bearer ${process.env.API_KEY}`,"]
        lines += ['  "Content-Type": "application/json",', "},", f"body: JSON.stringify({_json(sample.body)}),"]
    called = "\n  ".join([f'const response = await fetch("{sample.url}", {{', *lines])
    answer = ", await response.json()" if sample.has_answer else ""
    return f"{called}\n}});\nconsole.log(response.status{answer});"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _python(value: Any) -> str:
    """Return a value of JSON as an expression."""
    if isinstance(value, dict):
        entries = [f"{_json(name)}: {_python(each)}" for name, each in value.items()]
        if sum(map(len, entries)) > MAX_WIDTH:
            return "\n        ".join(["{", *(f"{entry}," for entry in entries)]) + "\n    }"
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    return repr(value) if value is None or isinstance(value, bool) else _json(value)
