"""The OpenAPI document of a host, which has the examples of its own event types, and the page that shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from .environment import Environment
from .hosts import FOLDER, HOSTS
from .running import Project

HOSTS_WITH_DOCUMENTS = ("without_celery_sqlite", "organizations", "hostile_rest_framework")


@pytest.mark.timeout(180)
@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("name", HOSTS_WITH_DOCUMENTS)
def test_the_document_of_a_host_is_valid_and_its_own(name: str, environment: Environment, tmp_path: Path) -> None:
    host = next(host for host in HOSTS if host.name == name)

    shown = Project(host, environment, tmp_path).output_of(FOLDER / "project" / "show_api.py")

    document = shown["document"]
    OpenAPIV31SpecValidator(document).validate()
    examples = list(examples_of(document))
    for schema, value in examples:
        Draft202012Validator({**schema, "components": document["components"]}).validate(value)
    assert len(examples) > 15
    assert "order.paid" in json.dumps(document["paths"])
    assert "ppt." not in json.dumps(document["paths"])
    assert (shown["page"], "openapi.json" in shown["text"]) == (200, True)


def examples_of(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the schema and the value of every example of a body."""
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    operations += [operation for item in document["webhooks"].values() for operation in item.values()]
    for operation in operations:
        for part in (operation.get("requestBody") or {}, *operation["responses"].values()):
            for content in part.get("content", {}).values():
                for example in content.get("examples", {}).values():
                    yield content["schema"], example["value"]
