"""The receiver view: its answers to the service, and the calls of the handler."""

import io
import json
import logging
import time
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection
from django.test import Client
from django.urls import path

from webhooks_app.protocol.handshake import challenge_body
from webhooks_app.receiver_view import WebhookReceiverView
from webhooks_app.signatures import signed_headers

SECRET = "a secret of the integrator's"
ADDRESS = "/hooks/"

handled = []


class Refusing(WebhookReceiverView):
    """Fails for an event as often as its data requires, then handles it."""

    secret = (SECRET, "another secret")
    failures = 0

    def handle(self, event):
        Refusing.failures += 1
        if Refusing.failures <= event.data["times"]:
            raise RuntimeError("the password is hunter2")
        handled.append(event)


class Reentrant(WebhookReceiverView):
    """Receives the same event again while handling it."""

    secret = SECRET
    inner = None

    def handle(self, event):
        Reentrant.inner = post({"x": 1}, address="/reentrant/")
        handled.append(event)


class Writing(WebhookReceiverView):
    """Writes a row, then fails."""

    secret = SECRET

    def handle(self, event):
        get_user_model().objects.create(username=event.id)
        if event.data["fails"]:
            raise RuntimeError


async def handle_later(event):
    handled.append(event)


urlpatterns = [
    path("hooks/", WebhookReceiverView.as_view(secret=SECRET, handle=handled.append)),
    path("other/", WebhookReceiverView.as_view(secret=SECRET, handle=handled.append)),
    path("small/", WebhookReceiverView.as_view(secret=SECRET, handle=handled.append, max_body_bytes=200)),
    path("old/", WebhookReceiverView.as_view(secret=SECRET, handle=handled.append, tolerance=None)),
    path("strict/", WebhookReceiverView.as_view(secret=SECRET, handle=handled.append, tolerance=timedelta(seconds=1))),
    path("refusing/", Refusing.as_view()),
    path("reentrant/", Reentrant.as_view()),
    path("writing/", Writing.as_view()),
    path("no-secret/", WebhookReceiverView.as_view(handle=handled.append)),
    path("no-handler/", WebhookReceiverView.as_view(secret=SECRET)),
    path("asynchronous/", WebhookReceiverView.as_view(secret=SECRET, handle=handle_later)),
]

pytestmark = pytest.mark.urls(__name__)


@pytest.fixture(autouse=True)
def _fresh():
    cache.clear()
    handled.clear()
    Refusing.failures = 0


def envelope(data, event_id="evt_1"):
    event = {"id": event_id, "type": "file.deleted", "created": "2026-01-01T12:00:00.000000Z", "data": data}
    return json.dumps(event).encode()


def post(
    data=None,
    *,
    body=None,
    event_id="evt_1",
    address=ADDRESS,
    event_type="file.deleted",
    secret=SECRET,
    previous_secret="",
    age=0,
):
    body = envelope(data or {}, event_id) if body is None else body
    headers = dict(signed_headers(secret, int(time.time()) - age, event_type, body, previous_secret=previous_secret))
    client = Client(enforce_csrf_checks=True)
    return client.post(address, body, content_type=headers.pop("Content-Type"), headers=headers)


def test_a_genuine_event_reaches_the_handler_and_is_answered_with_200():
    answer = post({"file_id": "file_1"})

    assert (answer.status_code, answer.json()) == (200, {"status": "received"})
    assert [(event.id, event.data) for event in handled] == [("evt_1", {"file_id": "file_1"})]


def test_the_challenge_is_answered_and_not_handled():
    answer = post(body=challenge_body("abc"), event_type="webhook.verification")

    assert (answer.status_code, answer.json()) == (200, {"challenge": "abc"})
    assert answer["Content-Type"] == "application/json"
    assert handled == []


@pytest.mark.parametrize("body", [envelope({}), challenge_body("abc")], ids=["event", "challenge"])
def test_a_receiver_with_the_old_secret_accepts_events_during_the_overlap(body):
    event_type = json.loads(body)["type"]

    answer = post(body=body, event_type=event_type, secret="the secret that replaced it", previous_secret=SECRET)

    assert answer.status_code == 200


@pytest.mark.parametrize("body", [envelope({}), challenge_body("abc")], ids=["event", "challenge"])
def test_a_wrong_signature_is_answered_with_400_and_an_error(body):
    event_type = json.loads(body)["type"]

    answer = post(body=body, event_type=event_type, secret="not the secret")

    assert answer.status_code == 400
    assert "signature does not match" in answer.json()["error"]
    assert "challenge" not in answer.json()
    assert handled == []


def test_a_request_without_the_headers_is_answered_with_400():
    answer = Client().post(ADDRESS, envelope({}), content_type="application/json")

    assert answer.status_code == 400
    assert "X-Webhook-Timestamp" in answer.json()["error"]


def test_a_refusal_is_logged_without_the_secret(caplog):
    post(secret="not the secret")

    [record] = [each for each in caplog.records if each.name == "webhooks_app.receiver.django"]
    assert "signature does not match" in record.getMessage()
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("address", "age", "status"),
    [
        pytest.param("/hooks/", 250, 200, id="within the default"),
        pytest.param("/hooks/", 400, 400, id="beyond the default"),
        pytest.param("/strict/", 60, 400, id="beyond one second"),
        pytest.param("/old/", 10_000_000, 200, id="any age"),
    ],
)
def test_the_tolerated_age_can_be_set(address, age, status):
    assert post(address=address, age=age).status_code == status


def test_the_same_event_is_handled_once():
    answers = [post().json()["status"] for _ in range(3)]

    assert answers == ["received", "duplicate", "duplicate"]
    assert len(handled) == 1


def test_other_events_are_not_duplicates():
    for event_id in ("evt_1", "evt_2", "e" * 500, "evt \n"):
        assert post(event_id=event_id).json() == {"status": "received"}

    assert len(handled) == 4


def test_the_same_event_at_another_path_is_not_a_duplicate():
    post(address="/hooks/")

    assert post(address="/other/").json() == {"status": "received"}


def test_a_forged_event_does_not_block_the_genuine_one():
    post(secret="not the secret")

    assert post().json() == {"status": "received"}


def test_an_error_in_the_handler_is_logged_and_answered_with_500(caplog):
    answer = post({"times": 1}, address="/refusing/")

    assert (answer.status_code, answer.json()) == (500, {"error": "The event could not be handled."})
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR and each.exc_info]
    assert "evt_1 of type file.deleted" in record.getMessage()


def test_a_failed_event_is_handled_again_on_its_retry():
    answers = [post({"times": 2}, address="/refusing/").status_code for _ in range(4)]

    assert answers == [500, 500, 200, 200]
    assert len(handled) == 1


def test_a_duplicate_during_the_handling_is_answered_with_409():
    answer = post({"x": 1}, address="/reentrant/")

    assert Reentrant.inner.status_code == 409
    assert "error" in Reentrant.inner.json()
    assert answer.status_code == 200
    assert post({"x": 1}, address="/reentrant/").json() == {"status": "duplicate"}
    assert len(handled) == 1


def test_an_interrupted_event_is_handled_at_the_last_retry(monkeypatch):
    def cut_off(event):
        raise SystemExit

    monkeypatch.setattr(Reentrant, "handle", staticmethod(cut_off))
    with pytest.raises(SystemExit):
        post(address="/reentrant/")
    monkeypatch.setattr(Reentrant, "handle", staticmethod(handled.append))
    sent_away = post(address="/reentrant/")
    start = time.time()
    monkeypatch.setattr(time, "time", lambda: start + 36)

    assert sent_away.status_code == 409
    assert post(address="/reentrant/").json() == {"status": "received"}


def test_any_of_several_secrets_is_accepted():
    assert post({"times": 0}, address="/refusing/", secret="another secret").status_code == 200


@pytest.mark.parametrize(("length", "status"), [(200, 200), (201, 413), (100_000, 413)])
def test_a_body_over_the_limit_is_answered_with_413(length, status):
    body = envelope({"pad": ""})
    body = body.replace(b'"pad": ""', b'"pad": "%s"' % (b"x" * (length - len(body))))
    assert len(body) == length

    answer = post(body=body, address="/small/")

    assert answer.status_code == status
    assert ("error" in answer.json()) == (status == 413)


@pytest.mark.parametrize("error", [OSError, EOFError, ValueError, RuntimeError])
def test_a_body_that_the_server_cannot_read_is_answered_with_400(error):
    class Broken(io.RawIOBase):
        def read(self, size=-1):
            raise error

    body = {"wsgi.input": Broken(), "CONTENT_LENGTH": "100", "CONTENT_TYPE": "application/json"}
    answer = Client(enforce_csrf_checks=True).post(ADDRESS, **body)

    assert answer.status_code == 400
    assert handled == []


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "head", "options"])
def test_only_post_is_allowed(method):
    answer = getattr(Client(), method)(ADDRESS)

    assert answer.status_code == 405
    assert answer["Allow"] == "POST"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param("/no-secret/", "no secret", id="secret"),
        pytest.param("/asynchronous/", "async_to_sync", id="async"),
    ],
)
def test_a_misconfigured_view_raises_an_error_with_the_remedy(address, message):
    with pytest.raises((ImproperlyConfigured, TypeError), match=message):
        post(address=address)


def test_a_view_without_a_handler_confirms_nothing(caplog):
    assert post(address="/no-handler/").status_code == 500
    assert "has no handle()" in caplog.text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("fails", "rows"), [(True, 0), (False, 1)])
def test_changes_of_a_failed_handler_are_rolled_back_under_atomic_requests(fails, rows, monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    post({"fails": fails}, address="/writing/")

    assert get_user_model().objects.count() == rows
    assert post({"fails": fails}, address="/writing/").status_code == (500 if fails else 200)


@pytest.mark.django_db(transaction=True)
def test_an_event_without_a_commit_is_not_remembered(monkeypatch):
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    with monkeypatch.context() as failing:
        failing.setattr(connection, "_commit", fail)
        with pytest.raises(OperationalError):
            post({"fails": False}, address="/writing/")

    assert post({"fails": False}, address="/writing/").status_code == 409


def fail():
    raise OperationalError("could not serialize access")
