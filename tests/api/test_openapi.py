"""The OpenAPI document and its page."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel

from tests.support.retries import TWO
from webhooks_app.api import examples, serializers
from webhooks_app.api.fields import URL_PATTERN
from webhooks_app.api.openapi import OperationSchema
from webhooks_app.api.routers import ApiRouter
from webhooks_app.api.views import WebhookViewSet
from webhooks_app.event_types import INTERNAL_EVENT_TYPES, EventType, registry
from webhooks_app.exceptions import InvalidEndpointError
from webhooks_app.protocol.ids import attempt_id
from webhooks_app.transport import parse_endpoint

URL_CASES = json.loads(Path(__file__).parents[1].joinpath("transport", "urls.json").read_text())
API_PAGE = Path(__file__).parents[2] / "docs" / "api.md"
DELIVERED = [*registry.emittable_names(), *(event_type.name for event_type in INTERNAL_EVENT_TYPES)]


class Item(BaseModel):
    name: str


class Order(BaseModel):
    items: list[Item]


ORDERED = EventType(name="shop.ordered", description="Ordered", data_model=Order, example={"items": [{"name": "x"}]})


def load():
    answer = Client().get("/v1/openapi.json")
    assert answer.status_code == 200
    return answer.json()


@pytest.fixture
def document():
    return load()


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def validator(document, schema):
    """Return a validator for a schema with references to the document's components."""
    return Draft202012Validator({**schema, "components": document["components"]})


def test_the_document_is_valid_openapi_3_1(document):
    OpenAPIV31SpecValidator(document).validate()

    assert document["openapi"].startswith("3.1.")


def test_the_document_is_valid_with_a_hosts_own_types():
    with registry.temporarily(ORDERED):
        document = load()

    OpenAPIV31SpecValidator(document).validate()
    assert "shop.ordered" in document["webhooks"]
    assert "shop.ordered" not in load()["webhooks"]


def test_the_examples_are_those_of_the_hosts_own_catalogue():
    with without_types(), registry.temporarily(ORDERED):
        document = load()

    assert_examples_fit(document)
    assert "ppt." not in json.dumps(document["paths"])
    assert '"shop.ordered"' in json.dumps(document["paths"])


def test_a_host_without_event_types_has_a_valid_document():
    with without_types():
        document = load()

    OpenAPIV31SpecValidator(document).validate()
    assert_examples_fit(document, at_least=8)
    assert "ppt." not in json.dumps(document["paths"])


@pytest.mark.django_db
def test_the_example_of_a_new_webhook_can_be_sent(document, api):
    content = document["paths"]["/v1/webhooks"]["post"]["requestBody"]["content"]["application/json"]
    (example,) = content["examples"].values()

    assert api.call("POST", "/v1/webhooks", example["value"]).status_code == 201


@contextmanager
def without_types():
    with registry.temporarily():
        for name in registry.names():
            registry.unregister(name)
        yield


def test_every_route_is_documented(document):
    documented = {(method, path.partition("{")[0]) for method, path, _ in operations(document)}
    routed = {
        (method, f"/v1/{str(pattern.pattern).removeprefix('^').removesuffix('/?$').partition('(')[0]}")
        for pattern in ApiRouter().urls
        for method in getattr(pattern.callback, "actions", ())
        if method != "head"
    }

    assert documented == routed


def test_every_schema_is_complete(document, capfd):
    from webhooks_app.api import openapi

    openapi._document.cache_clear()
    load()

    assert capfd.readouterr() == ("", "")


def test_no_description_is_one_for_readers_of_the_code(document):
    described = [schema.get("description", "") for schema in document["components"]["schemas"].values()]

    assert [text for text in described if "``" in text] == []


def test_every_operation_has_a_unique_name_and_summary(document):
    found = list(operations(document))

    assert len({operation["operationId"] for *_, operation in found}) == len(found)
    assert len({operation["summary"] for *_, operation in found}) == len(found)


def test_every_operation_documents_its_authentication_and_its_errors(document):
    assert document["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    for *_, operation in operations(document):
        assert operation["security"] == [{"apiKey": []}]
        assert {"400", "401", "406", "429"} <= set(operation["responses"])
        for status, response in operation["responses"].items():
            if status >= "400":
                assert list(response["content"]) == ["application/problem+json"]


def test_the_examples_fit_their_schemas(document):
    assert_examples_fit(document)


def assert_examples_fit(document, at_least=16):
    checked = 0
    for *_, operation in operations(document):
        for part in (operation.get("requestBody"), *operation["responses"].values()):
            for content in (part or {}).get("content", {}).values():
                for example in content.get("examples", {}).values():
                    validator(document, content["schema"]).validate(example["value"])
                    checked += 1

    assert checked >= at_least


def test_the_example_attempt_has_the_id_of_its_delivery(document):
    operation = document["paths"]["/v1/deliveries/{delivery_id}"]["get"]
    content = operation["responses"]["200"]["content"]["application/json"]

    (example,) = content["examples"].values()
    (attempt,) = example["value"]["attempts"]

    assert attempt["id"] == attempt_id(example["value"]["id"], attempt["number"])


@pytest.mark.parametrize("name", DELIVERED)
def test_every_delivery_is_described(document, name):
    operation = document["webhooks"][name]["post"]
    content = operation["requestBody"]["content"]["application/json"]

    example = content["examples"]["body"]["value"]
    headers = [parameter["name"] for parameter in operation["parameters"]]

    assert example["type"] == name
    validator(document, content["schema"]).validate(example)
    assert headers == ["X-Webhook-Signature", "X-Webhook-Timestamp", "X-Webhook-Event"]
    assert set(operation["responses"]) == {"200", "default"}


def test_a_delivery_of_another_type_does_not_fit(document):
    content = document["webhooks"]["file.deleted"]["post"]["requestBody"]["content"]["application/json"]
    example = content["examples"]["body"]["value"]

    for forged in ({**example, "type": "file.uploaded"}, {**example, "data": {}}, {**example, "id": "wh_1"}):
        assert not validator(document, content["schema"]).is_valid(forged)


def test_the_verification_is_described_exactly(document):
    operation = document["webhooks"]["webhook.verification"]["post"]

    assert set(operation["requestBody"]["content"]["application/json"]["examples"]["body"]["value"]) == {"type", "data"}
    answer = operation["responses"]["200"]["content"]["application/json"]
    assert answer["schema"]["required"] == ["challenge"]


def test_nested_models_have_schemas():
    with registry.temporarily(ORDERED):
        document = load()

    content = document["webhooks"]["shop.ordered"]["post"]["requestBody"]["content"]["application/json"]
    example = content["examples"]["body"]["value"]
    validator(document, content["schema"]).validate(example)
    assert not validator(document, content["schema"]).is_valid({**example, "data": {"items": [{}]}})


def test_the_documented_retries_follow_the_settings(settings):
    settings.WEBHOOKS_RETRY_POLICIES = [TWO]

    responses = load()["webhooks"]["file.deleted"]["post"]["responses"]

    assert "after 2, 7.5 seconds" in responses["default"]["description"]


def test_the_documented_limit_of_concurrent_requests_follows_the_settings(settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 7

    limit = load()["components"]["schemas"]["NewWebhook"]["properties"]["max_in_flight"]
    assert (limit["minimum"], limit["maximum"]) == (1, 7)


def test_the_documented_size_of_bodies_is_that_of_the_parser(settings):
    settings.WEBHOOKS_EMIT_BODY_BYTES = 2_000_000

    paths = load()["paths"]

    described = [paths[path]["post"]["responses"]["413"]["description"] for path in ("/v1/webhooks", "/v1/events")]
    assert described == ["The body is larger than 65,536 bytes.", "The body is larger than 2,000,000 bytes."]


def test_every_rate_limit_is_documented(document):
    described = document["components"]["schemas"]["Problem"]["properties"]["limit"]["description"]

    names = re.findall(r"^\| `(\w+)` \|.*`WEBHOOKS_\w+_RATE`", API_PAGE.read_text(), re.MULTILINE)
    assert len(names) == 5
    assert [name for name in names if f"`{name}`" not in described] == []


def test_the_page_about_the_api_names_each_request(document):
    named = set()
    for row in re.findall(r"^\| (`(?:GET|POST|PATCH|DELETE) .*?) \|", API_PAGE.read_text(), re.MULTILINE):
        first, *others = re.findall("`(.+?)`", row)
        method, path = first.split()
        paths = [path, *(each if each.startswith("/v1") else path.rpartition("/")[0] + each for each in others)]
        named |= {(method, re.sub(r"{\w+}", "{}", each)) for each in paths}

    requests = {
        (method.upper(), re.sub(r"{\w+}", "{}", path))
        for path, methods in document["paths"].items()
        for method in methods.keys() & {"get", "post", "patch", "put", "delete"}
    }

    assert requests == named


@pytest.mark.parametrize("name", ["deliveries", "events", "webhooks", "replays"])
def test_the_page_about_the_api_names_each_filter(document, name):
    (row,) = re.findall(rf"^\| {name} \|.*", API_PAGE.read_text(), re.MULTILINE)
    parameters = {each["name"] for each in document["paths"][f"/v1/{name}"]["get"]["parameters"]}

    assert parameters - {"cursor", "limit"} == set(re.findall(r"`(\w+)[`=]", row)) - {"cancelled"}


def test_the_example_of_a_secret_has_the_form_of_a_generated_one():
    secret = examples.examples(tuple(registry))[serializers.WebhookWithSecretSerializer]["secret"]

    assert len(b64decode(secret.removeprefix("whsec_"), validate=True)) == 32


def test_the_document_is_the_same_in_every_language(document):
    german = Client(headers={"accept-language": "de"}).get("/v1/openapi.json").json()

    assert german == document


def test_the_document_is_served_under_the_hosts_prefix(settings):
    settings.ROOT_URLCONF = "tests.api.mounted"

    document = Client().get("/hooks/api/openapi.json/").json()

    assert "/hooks/api/webhooks/test" in document["paths"]
    assert all(path.startswith("/hooks/api/") for path in document["paths"])


def test_the_page_loads_only_files_of_its_own_host(document):
    page = Client().get("/v1/docs", headers={"accept": "text/html"})

    assert page.status_code == 200
    assert page["Content-Type"].startswith("text/html")
    assert 'data-openapi-url="/v1/openapi.json"' in page.text
    assert "//" not in page.text.replace("/static/", "")
    assert "<script>" not in page.text


@pytest.mark.parametrize(
    "name",
    [
        "webhooks_app/swagger_ui.js",
        "drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js",
        "drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css",
        "drf_spectacular_sidecar/swagger-ui-dist/favicon-32x32.png",
    ],
)
def test_the_files_of_the_page_exist(name):
    page = Client().get("/v1/docs/").text

    assert f"/static/{name}" in page
    assert finders.find(name)


def test_the_document_contains_only_made_up_secrets(document):
    text = json.dumps(document)

    assert text.count("whsec_") == text.count("whsec_VYJ6q0o9zD3vA4m4kQ1yPDkWwT0v1sO8n5oJfX2bE0c")


@pytest.mark.parametrize("case", URL_CASES, ids=lambda case: case["id"])
def test_the_pattern_of_urls_matches_accepted_urls(case):
    try:
        parse_endpoint(case["url"])
    except InvalidEndpointError:
        return

    assert re.search(URL_PATTERN, case["url"])


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost/",
        "https://a..b/",
        "https://a.b:22/",
        "https://a.b./",
        "https://a.b/%zz",
        "https://ä.com/",
        "https://a.1/",
    ],
)
def test_the_pattern_of_urls_does_not_match_other_forms(url):
    assert not re.search(URL_PATTERN, url)


def test_a_subclass_of_a_view_set_can_extend_the_schema():
    @extend_schema(tags=["Mine"])
    class MyWebhooks(WebhookViewSet):
        @extend_schema(summary="My list")
        def list(self, *args, **kwargs):
            return super().list(*args, **kwargs)

    assert isinstance(MyWebhooks().schema, AutoSchema)
    assert isinstance(WebhookViewSet().schema, OperationSchema)


def schemas_within(document, part):
    """Yield every schema of a part of the document, with those that it refers to."""
    todo, seen = [part], set()
    while todo:
        schema = todo.pop()
        if isinstance(schema, list):
            todo += schema
        elif isinstance(schema, dict):
            yield schema
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            if name and name not in seen:
                seen.add(name)
                todo.append(document["components"]["schemas"][name])
            todo += [value for key, value in schema.items() if key not in ("example", "examples")]


def test_answers_have_no_closed_set_of_values(document):
    answers = [operation["responses"] for *_, operation in operations(document)]

    schemas = list(schemas_within(document, answers))
    closed = [schema for schema in schemas if "enum" in schema or "const" in schema]
    open_sets = [schema for schema in schemas if "x-extensible-enum" in schema]

    assert closed == []
    assert len(open_sets) > 20
    for schema in open_sets:
        assert "string" in schema["type"]
        assert [value for value in schema["x-extensible-enum"] if f"`{value}`" not in schema["description"]] == []


def test_requests_have_closed_sets_of_values(document):
    requests = [
        [operation.get("requestBody", {}), operation.get("parameters", [])] for *_, operation in operations(document)
    ]

    schemas = list(schemas_within(document, requests))

    assert [schema for schema in schemas if "x-extensible-enum" in schema] == []
    assert sum("enum" in schema for schema in schemas) > 10


def test_an_answer_with_a_value_of_a_later_version_fits(document):
    content = document["paths"]["/v1/deliveries/{delivery_id}"]["get"]["responses"]["200"]["content"]
    (example,) = content["application/json"]["examples"].values()
    delivery = example["value"]
    later = {**delivery, "state": "postponed", "attempts": [{**delivery["attempts"][0], "result": "quota_exceeded"}]}

    validator(document, content["application/json"]["schema"]).validate(later)


def test_a_known_value_is_described_in_words(document):
    result = document["components"]["schemas"]["Attempt"]["properties"]["result"]

    assert "`timeout`, " in result["description"]
    assert "`dns_error` (name not resolved)" in result["description"]
