"""The reference of the REST API: each operation on one page, with the same request in three languages."""

from __future__ import annotations

import json
import shlex
import subprocess
import types
from collections import Counter
from typing import Any

import pytest

from docs.rendering.rest_api import PAGES, openapi_document, operations
from docs.rendering.samples import Sample, curl, javascript, python, sample_of

OPERATIONS = [pytest.param(path, method, id=each["operationId"]) for path, method, each in operations()]
KEY = "whk_of_a_test"
FETCH = """
process.env.API_KEY = %s;
const found = [];
globalThis.fetch = async (url, { method = "GET", headers, body }) => {
  found.push([method, url, headers.Authorization, body ? JSON.parse(body) : null]);
  return { json: async () => ({}) };
};
console.log = () => {};
(async () => { %s process.stdout.write(JSON.stringify(found)); })();
"""


def test_each_operation_is_on_one_page() -> None:
    found = Counter(each["operationId"] for page in PAGES.values() for _, _, each in operations(page))

    assert found == Counter(each["operationId"] for _, _, each in operations())


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_command_and_the_python_code_send_the_request_of_the_document(path: str, method: str) -> None:
    sample = sample_of(openapi_document(), path, method)

    assert _sent_by_curl(curl(sample)) == _wanted(sample)
    assert _sent_by_python(python(sample)) == _wanted(sample)


def test_the_javascript_code_sends_the_requests_of_the_document() -> None:
    samples = [sample_of(openapi_document(), path, method) for path, method, _ in operations()]
    code = "\n".join(f"{{ {javascript(sample)} }}" for sample in samples)

    ended = subprocess.run(["node", "-e", FETCH % (json.dumps(KEY), code)], capture_output=True, text=True, check=True)

    assert json.loads(ended.stdout) == [_wanted(sample) for sample in samples]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_the_example_fits_the_operation(path: str, method: str) -> None:
    sample = sample_of(openapi_document(), path, method)

    assert sample.method == method.upper()
    assert "{" not in sample.url
    assert sample.url.count("/") == f"https://api.example.com{path}".count("/")
    assert (sample.body is not None) or not openapi_document()["paths"][path][method].get("requestBody", {}).get(
        "required"
    )


def _wanted(sample: Sample) -> list[Any]:
    return [sample.method, sample.url, f"Bearer {KEY}", sample.body]


def _sent_by_curl(command: str) -> list[Any]:
    name, *words = shlex.split(command.replace("\\\n", "").replace("$API_KEY", KEY))
    assert name == "curl"
    options: dict[str, list[str]] = {"-H": [], "-d": [], "--request": [], "url": []}
    rest = iter(words)
    for word in rest:
        options[word if word in options else "url"].append(next(rest) if word in options else word)
    (url,) = options["url"]
    headers = dict(header.split(": ") for header in options["-H"])
    body = json.loads(options["-d"][0]) if options["-d"] else None
    assert (headers.get("Content-Type") == "application/json") == (body is not None)
    method = options["--request"][0] if options["--request"] else "POST" if options["-d"] else "GET"
    return [method, url, headers["Authorization"], body]


def _sent_by_python(code: str) -> list[Any]:
    found: list[Any] = []

    def send(method: str, url: str, *, headers: dict[str, str], timeout: int, json: Any = None) -> Any:
        found.extend([method, url, headers["Authorization"], json])
        return types.SimpleNamespace(raise_for_status=lambda: None, json=dict)

    methods = ("get", "post", "patch", "delete")
    requests = {name: (lambda *args, name=name, **options: send(name.upper(), *args, **options)) for name in methods}
    modules = {"requests": types.SimpleNamespace(**requests), "os": types.SimpleNamespace(environ={"API_KEY": KEY})}
    built = dict(__builtins__) if isinstance(__builtins__, dict) else dict(vars(__builtins__))
    exec(
        compile(code, "sample", "exec"),
        {"__builtins__": {**built, "__import__": lambda name, *_: modules[name], "print": id}},
    )
    return found
