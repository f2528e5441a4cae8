"""The short way of ``POST /v1/events``, beside Django REST framework's, which a host's subclass takes."""

from __future__ import annotations

import re

import pytest
from django.core.cache import cache
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from rest_framework.permissions import BasePermission

from tests.support.rows import EVENT_TYPE, make_webhook
from webhooks_app.api.emission import Emission
from webhooks_app.api.openapi import document
from webhooks_app.api.urls import urlpatterns
from webhooks_app.api.views import EventViewSet
from webhooks_app.models import ApiKey, Event
from webhooks_app.operations import rate_limits

pytestmark = pytest.mark.django_db

SHORT, LONG = "/v1/events", "/hooks/api/events"
GOOD = {"type": EVENT_TYPE, "owner": None, "data": {"error": "No outline"}}
VALID = {
    "occurred_at": "2026-01-31T13:00:00+01:00",
    "idempotency_key": "k",
    "references": ["r", "s"],
    "ordering_key": "o",
}


@pytest.fixture(autouse=True)
def _both_ways(settings):
    settings.ROOT_URLCONF = "tests.api.mounted"


def answers_of(client, body, **headers):
    """Return what both ways answer, without what differs between any two requests."""
    return [_comparable(client, path, body, headers) for path in (SHORT, LONG)]


def _comparable(client, path, body, headers):
    Event.objects.all().delete()
    cache.clear()
    answer = client.call("POST", path, body, **headers)
    text = re.sub(r"evt_[0-9a-f]{32}", "evt_…", answer.content.decode())
    text = re.sub(r'"created":"(?!2026-01-31)[^"]*"', '"created":"…"', text)
    return answer.status_code, list(answer.headers.items()), text, Event.objects.count()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(GOOD, 202, id="event"),
        pytest.param({**GOOD, **VALID}, 202, id="event with every field"),
        pytest.param({"events": [GOOD, {**GOOD, **VALID}]}, 202, id="batch"),
        pytest.param({**GOOD, "owner": "no one"}, 400, id="unknown owner"),
        pytest.param({**GOOD, "owner": "99999999999999999999999"}, 400, id="large owner"),
        pytest.param({**GOOD, "type": "x.y"}, 400, id="unknown type"),
        pytest.param({**GOOD, "data": {"error": 5}}, 400, id="data of another type"),
        pytest.param({**GOOD, "data": []}, 400, id="list as data"),
        pytest.param({**GOOD, "more": 1}, 400, id="unknown field"),
        pytest.param({**GOOD, "occurred_at": "yesterday"}, 400, id="no time"),
        pytest.param({**GOOD, "references": ["r"] * 9}, 400, id="too many references"),
        pytest.param({**GOOD, "ordering_key": None}, 400, id="null"),
        pytest.param({"events": []}, 400, id="empty batch"),
        pytest.param({"events": [GOOD], **GOOD}, 400, id="batch and event"),
        pytest.param({"events": [GOOD, {**GOOD, "data": {}}, 7]}, 400, id="batch with errors"),
        pytest.param(
            {"events": [{**GOOD, "idempotency_key": "k"}, {**GOOD, "idempotency_key": "k", "data": {"error": "b"}}]},
            409,
            id="conflict",
        ),
        pytest.param(b"{", 400, id="no JSON"),
        pytest.param(b"[]", 400, id="no object"),
        pytest.param(b'{"type": "a", "type": "b"}', 400, id="a key twice"),
        pytest.param(b'{"a": "\\u0000"}', 400, id="NUL"),
        pytest.param(b"x" * 1024 * 1025, 413, id="too large"),
        pytest.param(b"", 400, id="nothing"),
    ],
)
def test_both_ways_answer_the_same(service, body, status):
    short, long = answers_of(service, body)

    assert short == long
    assert short[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Idempotency-Key": "k"}, 202, id="key"),
        pytest.param({"Idempotency-Key": "k" * 256}, 400, id="long key"),
        pytest.param({"content-type": "application/json; charset=utf-8"}, 202, id="charset"),
        pytest.param({"content-type": "application/json; charset=latin-1"}, 415, id="other charset"),
        pytest.param({"content-type": "text/plain"}, 415, id="other type"),
        pytest.param({"accept": "application/json"}, 202, id="accepts JSON"),
        pytest.param({"accept": "text/html"}, 406, id="accepts HTML"),
        pytest.param({"authorization": ""}, 401, id="no authorization"),
        pytest.param({"authorization": "Bearer whk_x_y"}, 401, id="unknown key"),
    ],
)
def test_both_ways_answer_headers_the_same(service, headers, status):
    short, long = answers_of(service, GOOD, **headers)

    assert short == long
    assert short[0] == status


def test_both_ways_refuse_other_keys_the_same(api, service):
    ApiKey.objects.update(scopes=[])

    for client in (api, service):
        short, long = answers_of(client, GOOD)
        assert short == long
        assert short[0] == 403


def test_both_ways_answer_a_query_the_same(service):
    short, long = (_comparable(service, f"{path}?a=b", GOOD, {}) for path in (SHORT, LONG))

    assert short == long
    assert short[0] == 400


def test_both_ways_count_and_refuse_requests_the_same(service, settings, monkeypatch):
    settings.WEBHOOKS_EMIT_RATE = "2/min"
    monkeypatch.setattr(rate_limits.time, "time", lambda: 1_800_000_000.0)

    def refused(path):
        cache.clear()
        bodies = [GOOD, b"{", GOOD, GOOD]
        answers = [service.call("POST", path, body) for body in bodies]
        return [(answer.status_code, answer.headers.get("retry-after")) for answer in answers], answers[-1].content

    assert refused(SHORT) == refused(LONG)
    assert [status for status, _ in refused(SHORT)[0]] == [202, 400, 429, 429]


def test_both_ways_hide_an_unexpected_error(service, monkeypatch):
    monkeypatch.setattr(Emission, "emit", lambda *_: 1 / 0)

    short, long = answers_of(service, GOOD)

    assert short == long
    assert short[0] == 500


def test_a_usual_request_takes_the_short_way(service, alice, monkeypatch):
    make_webhook(alice)
    monkeypatch.setattr(EventViewSet, "initial", lambda *_, **__: 1 / 0)

    answer = service.call("POST", SHORT, {**GOOD, "owner": str(alice.pk)}, accept="*/*")

    assert answer.status_code == 202
    assert ApiKey.objects.get().last_used_at is not None


_TEXTS = st.sampled_from(
    ["", "a", "x" * 100, "x" * 101, "x" * 255, "x" * 256, "\n", "2026-01-31T12:00:00Z", "2026-01-31"]
)
_VALUES = st.one_of(
    _TEXTS, st.none(), st.integers(-1, 1), st.booleans(), st.lists(_TEXTS, max_size=9), st.dictionaries(_TEXTS, _TEXTS)
)
NO_TIMES = ("2026-01-31", "", "a", "\n", "x" * 100, "x" * 101, "x" * 255, "x" * 256)
"""Texts that are no time with an offset. JSON Schema need not check formats."""
_FIELDS = st.sampled_from([*GOOD, *VALID, "more"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(_FIELDS, _VALUES, max_size=3), left_out=st.sets(_FIELDS, max_size=1))
def test_bodies_are_accepted_and_refused_as_documented(changes, left_out):
    event = {name: value for name, value in {**GOOD, **VALID, **changes}.items() if name not in left_out}
    schemas = document(urlpatterns, "/v1")["components"]["schemas"]
    validator = Draft202012Validator({"components": {"schemas": schemas}, "$ref": "#/components/schemas/NewEvent"})
    documented = {str(error.absolute_path[0]) for error in validator.iter_errors(event) if error.absolute_path}
    documented |= {name for name in ("type", "owner", "data") if name not in event}
    documented |= {"more"} & event.keys()

    found = set(Emission(event, None)._errors)
    in_batch = Emission({"events": [event]}, None)._errors

    assert {name for name in found ^ documented if event.get(name) not in NO_TIMES and name != "type"} == set()
    assert set(in_batch.get("events", {}).get(0, {})) == found


def test_a_policy_given_to_the_view_is_asked(rf, service):
    class Nobody(BasePermission):
        def has_permission(self, request, view):
            return False

    view = EventViewSet.as_view({"post": "create"}, permission_classes=[Nobody])
    headers = {"Authorization": f"Bearer {service.key}"}

    answer = view(rf.post(SHORT, GOOD, content_type="application/json", headers=headers))

    assert answer.status_code == 403
