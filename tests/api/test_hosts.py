"""The API in hosts with other settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.rows import EVENT_TYPE, URL, make_webhook

from .conftest import PROBLEM, client_of

pytestmark = pytest.mark.only_on("sqlite")

ODD_SETTINGS = {
    "NON_FIELD_ERRORS_KEY": "everything",
    "DATETIME_FORMAT": "%s",
    "UNICODE_JSON": False,
    "COMPACT_JSON": False,
    "COERCE_DECIMAL_TO_STRING": True,
    "URL_FORMAT_OVERRIDE": "type",
    "FORMAT_SUFFIX_KWARG": "webhook_id",
    "UNAUTHENTICATED_USER": None,
    "EXCEPTION_HANDLER": "tests.no_such_module",
    "DEFAULT_THROTTLE_RATES": {},
    "SCHEMA_COERCE_PATH_PK": False,
    "NUM_PROXIES": 0,
}

HOSTILE_HOST = """
import sys

{before}

import django
from django.conf import settings

settings.configure(
    WEBHOOKS_BUILTIN_EVENT_TYPES=True,
    SECRET_KEY="x", USE_TZ=True, ROOT_URLCONF="webhooks_app.api.urls", ALLOWED_HOSTS=["testserver"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "webhooks_app"],
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}},
    REST_FRAMEWORK={{
        "DEFAULT_AUTHENTICATION_CLASSES": [], "DEFAULT_PERMISSION_CLASSES": [], "DEFAULT_RENDERER_CLASSES": [],
        "DEFAULT_PARSER_CLASSES": [], "DEFAULT_THROTTLE_CLASSES": [], "DEFAULT_FILTER_BACKENDS": [],
        "DEFAULT_PAGINATION_CLASS": None, "DEFAULT_METADATA_CLASS": None,
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning", "ALLOWED_VERSIONS": ["7"],
        "DEFAULT_CONTENT_NEGOTIATION_CLASS": "rest_framework.negotiation.BaseContentNegotiation",
        "DEFAULT_SCHEMA_CLASS": "rest_framework.schemas.openapi.AutoSchema",
    }} if {hostile} else {{}},
    SPECTACULAR_SETTINGS={{"OAS_VERSION": "3.0.3", "COMPONENT_SPLIT_REQUEST": True, "CAMELIZE_NAMES": True}},
)
django.setup()

from django.core.management import call_command
from django.contrib.auth.models import User
from django.test import Client
from webhooks_app.models import ApiKey

call_command("migrate", verbosity=0)
key = ApiKey.objects.make(owner=User.objects.create_user("u"))[1]
client = Client(headers={{"authorization": "Bearer " + key}})
body = {{"url": "https://hooks.example.com/", "events": ["file.deleted"]}}
made = client.post("/webhooks", body, "application/json")
assert made.status_code == 201, made.content
assert len(client.get("/webhooks").json()["results"]) == 1
assert Client().get("/webhooks").status_code == 401
assert client.post("/webhooks", body).status_code == 415
assert client.get("/webhooks?cursor=x").status_code == 400
print(client.get("/openapi.json").status_code, client.get("/openapi.json").json().get("openapi"))
print(client.get("/docs").status_code)
"""


def run_host(*, hostile=False, before=""):
    script = HOSTILE_HOST.format(hostile=hostile, before=before)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_the_hosts_rest_framework_settings_have_no_effect():
    assert run_host(hostile=True) == ["200 3.1.0", "404"]


def test_the_documentation_packages_are_optional():
    blocked = "sys.modules['drf_spectacular'] = sys.modules['drf_spectacular_sidecar'] = None"

    assert run_host(before=blocked) == ["404 None", "404"]


@pytest.mark.django_db
def test_the_hosts_formats_have_no_effect(api, alice, settings):
    webhook = make_webhook(alice, description="Schlüssel")
    paths = [f"/v1/webhooks/{webhook.id}", "/v1/webhooks?type=xml", "/v1/nothing", "/v1/webhooks?limit=x"]
    before = [api.call("GET", path) for path in paths]

    settings.REST_FRAMEWORK = ODD_SETTINGS
    after = [api.call("GET", path) for path in paths]

    assert [answer.content for answer in after] == [answer.content for answer in before]
    assert client_of(alice).get("/v1/webhooks").status_code == 401


@pytest.mark.django_db
def test_the_api_is_exempt_from_the_login_required_middleware(api, settings):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]

    statuses = [api.call("GET", path).status_code for path in ("/v1/webhooks", "/v1/nothing", "/v1/openapi.json")]

    assert statuses == [200, 404, 200]


@pytest.mark.django_db(transaction=True)
def test_an_error_rolls_back_the_requests_transaction(api, alice, settings, monkeypatch):
    from django.db import connection

    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    webhook = make_webhook(alice, status="pending")

    assert api.call("POST", f"/v1/webhooks/{webhook.id}/verify", b"nonsense").status_code == 400
    assert api.call("GET", "/v1/nothing").status_code == 404
    assert api.call("POST", f"/v1/webhooks/{webhook.id}/verify").status_code == 202


@pytest.fixture
def mounted(settings):
    settings.ROOT_URLCONF = "tests.api.mounted"


@pytest.mark.django_db
def test_a_host_can_subclass_a_view_set(api, alice, mounted):
    make_webhook(alice)
    newer = make_webhook(alice)

    answer = api.call("GET", "/hooks/api/webhooks").json()

    assert (answer["count"], answer["results"][0]["id"], answer["results"][0]["shop"]) == (2, newer.id, "corner")


@pytest.mark.django_db
def test_a_host_can_add_an_operation_with_its_scope(api, alice, mounted):
    webhook = make_webhook(alice)
    path = f"/hooks/api/webhooks/{webhook.id}/greet"

    assert api.call("POST", path).json() == {"hello": webhook.id}
    assert client_of(alice, scopes=["webhooks:read"]).call("POST", path).status_code == 403


@pytest.mark.django_db
def test_an_operation_without_a_scope_is_refused(api, alice, mounted):
    answer = api.call("POST", f"/half/webhooks/{make_webhook(alice).id}/forgotten")

    assert (answer.status_code, answer["Content-Type"]) == (500, PROBLEM)


@pytest.mark.django_db
def test_the_host_can_have_other_urls_below_the_prefix(api, mounted):
    assert api.get("/hooks/api/own").text == "own"
    assert api.get("/hooks/api/nothing")["Content-Type"] == PROBLEM


@pytest.mark.django_db
def test_the_location_is_below_the_prefix(api, mounted):
    answer = api.call("POST", "/hooks/api/webhooks", {"url": URL, "events": [EVENT_TYPE]})

    assert answer["Location"] == f"http://testserver/hooks/api/webhooks/{answer.json()['id']}"
