"""Errors as problem documents."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation, ValidationError
from django.http import Http404
from django.test import Client
from rest_framework.exceptions import ValidationError as RestValidationError

from tests.support.rows import make_webhook
from webhooks_app.api.views import WebhookViewSet

from .conftest import PROBLEM

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/", "/v1/nothing", "/v1/webhooks/x/y/z", "/v1/webhooks/x/y", "/v1//webhooks"])
def test_an_unknown_url_is_not_found(api, method, path):
    answer = api.call(method, path)

    assert (answer.status_code, answer["Content-Type"]) == (404, PROBLEM)
    assert answer.json() == {"type": "about:blank", "title": "Not Found", "status": 404, "detail": "Not found."}


def test_an_unknown_url_needs_neither_key_nor_csrf_token():
    client = Client(enforce_csrf_checks=True)

    assert client.post("/v1/nothing").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/webhooks", "GET, POST, HEAD"),
        ("DELETE", "/v1/webhooks", "GET, POST, HEAD"),
        ("OPTIONS", "/v1/webhooks", "GET, POST, HEAD"),
        ("TRACE", "/v1/webhooks", "GET, POST, HEAD"),
        ("CONJURE", "/v1/webhooks", "GET, POST, HEAD"),
        ("PUT", "/v1/webhooks/wh_1", "GET, PATCH, DELETE, HEAD"),
        ("POST", "/v1/webhooks/wh_1", "GET, PATCH, DELETE, HEAD"),
        ("GET", "/v1/webhooks/wh_1/verify", "POST"),
        ("POST", "/v1/webhooks/wh_1/deliveries", "GET, HEAD"),
        ("PATCH", "/v1/events", "GET, POST, HEAD"),
        ("DELETE", "/v1/events/evt_1", "GET, HEAD"),
        ("GET", "/v1/deliveries/dlv_1/redeliver", "POST"),
        ("POST", "/v1/event-types", "GET, HEAD"),
        ("POST", "/v1/openapi.json", "GET, HEAD"),
        ("POST", "/v1/docs", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_answered_with_the_allowed_ones(api, method, path, allowed):
    answer = api.call(method, path)

    assert (answer.status_code, answer["Content-Type"]) == (405, PROBLEM)
    assert answer["Allow"] == allowed


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "nonsense", "x/" + "y" * 9000])
def test_a_caller_that_does_not_accept_json_gets_a_406(api, accept):
    answer = api.call("GET", "/v1/webhooks", accept=accept)

    assert (answer.status_code, answer["Content-Type"]) == (406, PROBLEM)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/*", "text/html, application/json;q=0.5", "application/json; indent=4"]
)
def test_a_caller_that_accepts_json_gets_it(api, accept):
    answer = api.call("GET", "/v1/webhooks", accept=accept)

    assert (answer.status_code, answer["Content-Type"].partition(";")[0]) == (200, "application/json")


def test_a_validation_problem_has_messages_by_field(api):
    answer = api.call("POST", "/v1/webhooks", {"url": 5})

    assert answer.json() == {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "detail": "Invalid: url, events.",
        "errors": {"url": ["Not a valid string."], "events": ["This field is required."]},
    }


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/webhooks", {"url": "https://hooks.example.com/", "events": [5, "file.uploaded"]}, "events[0]"),
        ("/v1/webhooks", {"url": "https://hooks.example.com/", "events": ["\ud800"]}, "events[0]"),
        ("/v1/deliveries/redeliver", {"delivery_ids": ["dlv_1", 7]}, "delivery_ids[1]"),
    ],
    ids=["wrong-type", "surrogate", "second-item"],
)
def test_an_item_of_a_list_is_named_by_its_index(api, path, body, field):
    answer = api.call("POST", path, body)

    assert list(answer.json()["errors"]) == [field]
    assert all(isinstance(message, str) for message in answer.json()["errors"][field])


class Broken:
    """Makes an operation raise an exception."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch

    def __call__(self, error):
        def list_(self, request):
            raise error

        self.monkeypatch.setattr(WebhookViewSet, "list", list_)


@pytest.fixture
def broken(monkeypatch):
    return Broken(monkeypatch)


def test_an_unexpected_error_has_no_details(api, broken):
    broken(RuntimeError("the password is swordfish"))

    answer = api.call("GET", "/v1/webhooks")

    assert (answer.status_code, answer["Content-Type"]) == (500, PROBLEM)
    assert answer.json() == {"type": "about:blank", "title": "Internal Server Error", "status": 500}


@pytest.mark.parametrize("debug", [True, False])
def test_an_unexpected_error_is_a_problem_document_in_development_too(api, broken, settings, debug):
    settings.DEBUG = debug
    broken(RuntimeError("swordfish"))

    answer = api.call("GET", "/v1/webhooks")

    assert (answer.status_code, "swordfish" in answer.text) == (500, False)


def test_an_unexpected_error_is_logged_once_with_its_traceback(api, broken, caplog):
    broken(RuntimeError("swordfish"))

    with caplog.at_level(logging.ERROR):
        api.call("GET", "/v1/webhooks")

    (record,) = caplog.records
    assert (record.name, record.levelname) == ("django.request", "ERROR")
    assert record.exc_info[1].args == ("swordfish",)


def test_a_hosts_test_client_raises_the_exception(api, broken):
    broken(RuntimeError("swordfish"))
    api.raise_request_exception = True

    with pytest.raises(RuntimeError, match="swordfish"):
        api.call("GET", "/v1/webhooks")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(Http404("No such row in table x"), 404, id="404"),
        pytest.param(PermissionDenied("Table x"), 403, id="403"),
        pytest.param(SuspiciousOperation("Table x"), 400, id="suspicious"),
        pytest.param(RequestDataTooBig("Table x"), 413, id="too big"),
    ],
)
def test_djangos_exceptions_are_problem_documents_without_their_text(api, broken, error, status):
    broken(error)

    answer = api.call("GET", "/v1/webhooks")

    assert (answer.status_code, answer["Content-Type"]) == (status, PROBLEM)
    assert "able x" not in answer.text


def test_errors_of_models_have_the_field_names_of_the_api(api, broken):
    broken(ValidationError({"event_types": ["too few"], "__all__": ["too many"]}))

    answer = api.call("GET", "/v1/webhooks")

    assert answer.status_code == 400
    assert answer.json()["errors"] == {"events": ["too few"], "non_field_errors": ["too many"]}


def test_nested_errors_are_flattened(api, broken):
    nested = {"events": [{}, {"data": {"pages": ["too few"], "non_field_errors": ["odd"]}}], "url": {"0": ["no host"]}}
    broken(RestValidationError(nested))

    answer = api.call("GET", "/v1/webhooks")

    assert answer.json()["errors"] == {
        "events[1].data.pages": ["too few"],
        "events[1].data": ["odd"],
        "url.0": ["no host"],
    }


def test_too_many_query_parameters_are_refused(api):
    answer = api.call("GET", "/v1/webhooks?" + "&".join(f"a{number}=1" for number in range(1001)))

    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)


def test_an_error_rolls_back_the_transaction_of_the_request(api, alice, broken, settings):
    webhook = make_webhook(alice)

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.id}", {"description": "new", "events": ["no.such"]})

    webhook.refresh_from_db()
    assert (answer.status_code, webhook.description) == (400, "")
