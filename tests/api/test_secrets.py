"""A search for a known secret and a known key in places where they must not be."""

from __future__ import annotations

import base64
import io
import json
import logging
from urllib.parse import quote

import pytest
from celery.signals import before_task_publish
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.views.debug import ExceptionReporter

from tests.support.rows import EVENT_TYPE, URL, emit_one
from webhooks_app.api import serializers
from webhooks_app.models import ApiKey, Delivery, Event, Webhook

from .conftest import ApiClient

pytestmark = pytest.mark.django_db

OLD = "old secret: zwölf Boxkämpfer"
NEW = "new secret: jagen Viktor quer"


@pytest.fixture
def key(alice):
    return str(ApiKey.objects.make(owner=alice)[1])  # its repr is not masked


@pytest.fixture
def api(key):
    return ApiClient(key)


@pytest.fixture
def leaks(key):
    """Return a function that finds the secrets in a text, in any encoding."""

    def leaks(*texts):
        text = "\n".join(texts)
        written = {}
        for secret in (OLD, NEW, key):
            in_base64 = base64.b64encode(secret.encode()).decode()
            forms = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret), in_base64.rstrip("=")[:-1]}
            written[secret] = [form for form in forms if form in text]
        return {secret: forms for secret, forms in written.items() if forms}

    return leaks


@pytest.fixture
def webhook_id(api):
    """A webhook whose secret was replaced over the API."""
    webhook_id = api.call("POST", "/v1/webhooks", {"url": URL, "events": [EVENT_TYPE], "secret": OLD}).json()["id"]
    api.call("POST", f"/v1/webhooks/{webhook_id}/rotate-secret", {"secret": NEW, "overlap_seconds": 3600})
    Webhook.objects.update(status="active")
    return webhook_id


def calls(webhook_id):
    """Yield every operation, the destructive ones last."""
    event, delivery = Event.objects.first(), Delivery.objects.exclude(event=None).first()
    webhook = f"/v1/webhooks/{webhook_id}"
    for path in ("/v1/webhooks", webhook, f"{webhook}/deliveries", "/v1/events", f"/v1/events/{event.id}"):
        yield "GET", path, None
    for path in (f"/v1/deliveries/{delivery.id}", "/v1/event-types", "/v1/openapi.json", "/v1/nothing"):
        yield "GET", path, None
    yield "PATCH", webhook, {"description": "x", "url": f"{URL}/2"}
    yield "PATCH", webhook, {"secret": NEW}
    yield "POST", "/v1/webhooks", {"url": "no", "events": [], "secret": NEW}
    yield "POST", f"{webhook}/rotate-secret", {"secret": f"{NEW}\0"}
    yield "POST", "/v1/webhooks/test", {"webhook_id": webhook_id, "event_type": EVENT_TYPE}
    yield "POST", f"/v1/deliveries/{delivery.id}/redeliver", None
    for verb in ("verify", "revoke-previous-secret", "disable", "enable"):
        yield "POST", f"{webhook}/{verb}", None
    yield "DELETE", webhook, None


def test_only_the_creating_answer_contains_a_secret(api, alice, webhook_id, leaks):
    emit_one(alice)

    answers = [api.call(*call) for call in calls(webhook_id)]

    assert leaks(*(f"{answer.headers} {answer.text}" for answer in answers)) == {}


def test_no_log_contains_a_secret(api, alice, key, leaks, caplog, monkeypatch, django_capture_on_commit_callbacks):
    for logger in (None, "django"):
        caplog.set_level(logging.DEBUG, logger)
    monkeypatch.setattr(
        connections["default"], "force_debug_cursor", True
    )  # so that every statement is logged with its values

    with django_capture_on_commit_callbacks(execute=True):
        path = "/v1/webhooks"
        webhook_id = api.call("POST", path, {"url": URL, "events": [EVENT_TYPE], "secret": OLD}).json()["id"]
        api.call("POST", f"{path}/{webhook_id}/rotate-secret", {"secret": NEW})
        Webhook.objects.update(status="active")
        emit_one(alice)
        for call in calls(webhook_id):
            api.call(*call)
        ApiClient(f"{key}x").call("GET", path)

    assert any(record.name == "django.db.backends" for record in caplog.records)
    assert leaks(caplog.text, *(str(record.__dict__) for record in caplog.records)) == {}


def test_no_message_to_the_broker_contains_a_secret(api, alice, leaks, django_capture_on_commit_callbacks):
    published = []
    before_task_publish.connect(lambda **message: published.append(repr(message)), weak=False, dispatch_uid="test")
    path = "/v1/webhooks"

    with django_capture_on_commit_callbacks(execute=True):
        webhook_id = api.call("POST", path, {"url": URL, "events": [EVENT_TYPE], "secret": OLD}).json()["id"]
        api.call("POST", f"{path}/{webhook_id}/rotate-secret", {"secret": NEW})
        api.call("POST", f"{path}/test", {"webhook_id": webhook_id, "event_type": EVENT_TYPE})

    before_task_publish.disconnect(dispatch_uid="test")
    assert leaks(*published) == {}


def test_no_database_dump_contains_a_secret(api, alice, webhook_id, leaks):
    emit_one(alice)
    dump = io.StringIO()

    call_command("dumpdata", stdout=dump)

    assert webhook_id in dump.getvalue()
    assert leaks(dump.getvalue()) == {}


def test_no_page_of_the_console_contains_a_secret(api, alice, key, webhook_id, leaks):
    emit_one(alice)
    staff = Client()
    staff.force_login(get_user_model().objects.create_superuser("root"))
    rows = {"webhook": webhook_id, "apikey": ApiKey.objects.get().pk, "event": Event.objects.first().pk}
    rows["delivery"] = Delivery.objects.first().pk
    staff.post(f"/admin/webhooks_app/webhook/{webhook_id}/change/", {"url": URL, "event_types": [EVENT_TYPE]})

    paths = ["/admin/", *(f"/admin/webhooks_app/{model}/" for model in rows)]
    paths += [
        f"/admin/webhooks_app/{model}/{pk}/{page}/" for model, pk in rows.items() for page in ("change", "history")
    ]
    answers = [staff.get(path) for path in paths]

    assert {answer.status_code for answer in answers} == {200}
    assert leaks(*(answer.text for answer in answers)) == {}


def test_no_repr_contains_a_secret(api, alice, key, webhook_id, leaks):
    webhook, api_key = Webhook.objects.get(), ApiKey.objects.get()
    fields = serializers.NewWebhookSerializer(instance=webhook)

    shown = [repr(webhook), str(webhook), repr(api_key), str(api_key), repr(fields), repr(Webhook.objects.all())]

    assert leaks(*shown) == {}


@pytest.mark.parametrize("debug", [True, False], ids=["debug", "production"])
def test_no_error_report_contains_a_secret(api, alice, key, webhook_id, leaks, settings, monkeypatch, caplog, debug):
    settings.DEBUG = debug

    def broken(*args, **kwargs):
        raise RuntimeError("no luck")

    monkeypatch.setattr("webhooks_app.api.views.register_webhook", broken)
    monkeypatch.setattr(Webhook, "rotate_secret", broken)
    monkeypatch.setattr(ApiKey, "touch", lambda self: broken() if self.name == "broken" else None)
    api.call("POST", "/v1/webhooks", {"url": URL, "events": [EVENT_TYPE], "secret": NEW})
    api.call("POST", f"/v1/webhooks/{webhook_id}/rotate-secret", {"secret": NEW})
    ApiKey.objects.update(name="broken")
    api.call("GET", "/v1/webhooks")

    # as in the mails of AdminEmailHandler and in error trackers
    records = [record for record in caplog.records if record.levelno == logging.ERROR]
    reports = [ExceptionReporter(record.request, *record.exc_info, is_email=True) for record in records]
    assert len(reports) == 3
    assert all("no luck" in report.get_traceback_text() for report in reports)
    assert leaks(*(report.get_traceback_html() + report.get_traceback_text() for report in reports)) == {}
