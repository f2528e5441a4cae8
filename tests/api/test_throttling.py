"""The rate limits of the API."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.core.cache.backends import base, locmem

from tests.support.rows import EVENT_TYPE, URL, emit_one, end_deliveries, make_webhook, unverified
from webhooks_app import send_test_event
from webhooks_app.models import Delivery, Event, Webhook
from webhooks_app.operations import rate_limits

from .conftest import PROBLEM, client_of

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]

ELSEWHERE = "http://127.0.0.9:9000/"


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by ``clock.now``."""

    clock = SimpleNamespace(now=1_000_000.0)
    for module in (rate_limits, base, locmem):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: clock.now))
    return clock


def send_test(api, webhook):
    return api.call("POST", "/v1/webhooks/test", {"webhook_id": webhook.id, "event_type": EVENT_TYPE})


def verify(api, webhook):
    return api.call("POST", f"/v1/webhooks/{unverified(webhook).id}/verify")


def enable(api, webhook):
    return api.call("POST", f"/v1/webhooks/{webhook.id}/enable")


def redeliver_test(api, webhook):
    delivery = send_test_event(webhook, EVENT_TYPE)
    end_deliveries(state="given_up")
    return api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver")


def test_the_requests_of_a_key_are_limited(api, settings, clock):
    settings.WEBHOOKS_API_RATE = "2/min"

    answers = [api.call("GET", "/v1/webhooks") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2]["Content-Type"] == PROBLEM
    assert answers[2]["Retry-After"] == "60"


def test_a_request_is_allowed_after_the_announced_time(api, settings, clock):
    settings.WEBHOOKS_API_RATE = "2/min"
    api.call("GET", "/v1/webhooks")
    clock.now += 20.5
    api.call("GET", "/v1/webhooks")

    refused = api.call("GET", "/v1/webhooks")
    clock.now += int(refused["Retry-After"])

    assert (refused.status_code, refused["Retry-After"]) == (429, "40")
    assert api.call("GET", "/v1/webhooks").status_code == 200


def test_a_lowered_rate_applies_immediately(api, settings, clock):
    for _ in range(5):
        api.call("GET", "/v1/webhooks")
    settings.WEBHOOKS_API_RATE = "2/min"

    answer = api.call("GET", "/v1/webhooks")

    assert (answer.status_code, answer["Retry-After"]) == (429, "60")


def test_a_rate_of_zero_refuses_all_requests(api, settings, clock):
    settings.WEBHOOKS_API_RATE = "0/min"

    answer = api.call("GET", "/v1/webhooks")

    assert (answer.status_code, answer["Retry-After"]) == (429, "60")


def test_an_empty_rate_means_no_limit(api, settings):
    settings.WEBHOOKS_API_RATE = ""

    assert [api.call("GET", "/v1/webhooks").status_code for _ in range(130)] == [200] * 130


def test_each_key_is_counted_separately(alice, settings):
    settings.WEBHOOKS_API_RATE = "1/min"

    assert [client_of(alice).call("GET", "/v1/webhooks").status_code for _ in range(3)] == [200] * 3


def test_the_default_is_120_a_minute(api, clock):
    statuses = [api.call("GET", "/v1/event-types/file.deleted").status_code for _ in range(121)]

    assert statuses == [200] * 120 + [429]


@pytest.mark.parametrize(("send", "setting"), [(send_test, "TEST"), (verify, "VERIFICATION")], ids=["test", "verify"])
def test_tests_and_verifications_are_counted_per_webhook(alice, settings, send, setting):
    setattr(settings, f"WEBHOOKS_{setting}_RATE", "2/min")
    first, second = make_webhook(alice), make_webhook(alice)

    statuses = [send(client_of(alice), first).status_code for _ in range(3)]

    assert statuses == [202, 202, 429]
    assert send(client_of(alice), second).status_code == 202


@pytest.mark.parametrize(("send", "rate"), [(send_test, 10), (verify, 5)], ids=["test", "verify"])
def test_tests_and_verifications_have_default_rates(api, alice, clock, send, rate):
    webhook = make_webhook(alice)

    assert [send(api, webhook).status_code for _ in range(rate + 1)] == [202] * rate + [429]


def test_a_new_url_counts_as_a_verification(api, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    webhook = make_webhook(alice)
    path = f"/v1/webhooks/{webhook.id}"

    statuses = [api.call("PATCH", path, {"url": f"{URL}/{number}"}).status_code for number in range(2)]

    assert statuses == [200, 429]
    assert api.call("GET", path).json()["pending_url"] == f"{URL}/0"
    assert api.call("PATCH", path, {"description": "x"}).status_code == 200


def test_enabling_counts_as_a_verification(api, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    webhook = make_webhook(alice)

    def disable_and_enable():
        api.call("POST", f"/v1/webhooks/{webhook.id}/disable")
        return api.call("POST", f"/v1/webhooks/{webhook.id}/enable").status_code

    assert [disable_and_enable() for _ in range(2)] == [200, 429]


def test_an_owner_with_many_keys_has_no_more_tests(alice, settings):
    settings.WEBHOOKS_PROBE_RATE = "2/min"
    webhooks = [make_webhook(alice, url=f"http://127.0.0.{number}:9000/") for number in (1, 2, 3)]

    assert [send_test(client_of(alice), webhook).status_code for webhook in webhooks] == [202, 202, 429]


def register(api, url=URL, events=(EVENT_TYPE,)):
    return api.call("POST", "/v1/webhooks", {"url": url, "events": list(events)})


def test_an_owner_with_many_keys_has_no_more_registrations(alice, settings):
    settings.WEBHOOKS_PROBE_RATE = "2/min"

    statuses = [register(client_of(alice), f"http://127.0.0.{number}:9000/").status_code for number in (1, 2, 3)]

    assert statuses == [201, 201, 429]


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(lambda api, owner: send_test(api, make_webhook(owner)), id="test"),
        pytest.param(lambda api, owner: verify(api, make_webhook(owner)), id="verify"),
        pytest.param(lambda api, owner: register(api), id="register"),
        pytest.param(lambda api, owner: enable(api, make_webhook(owner, status="disabled")), id="enable"),
        pytest.param(lambda api, owner: redeliver_test(api, make_webhook(owner)), id="redeliver a test"),
        pytest.param(
            lambda api, owner: api.call(
                "PATCH", f"/v1/webhooks/{make_webhook(owner, url=ELSEWHERE).id}", {"url": f"{URL}/2"}
            ),
            id="new url",
        ),
    ],
)
def test_one_owner_does_not_use_up_the_limit_of_others_for_a_receiver(alice, bob, settings, probe):
    settings.WEBHOOKS_PROBE_RATE = "2/min"

    statuses = [probe(client_of(owner), owner).status_code for owner in (alice, alice, alice, bob)]

    assert [status == 429 for status in statuses] == [False, False, True, False]


def test_redeliveries_of_events_are_not_limited(api, alice, settings):
    settings.WEBHOOKS_PROBE_RATE = settings.WEBHOOKS_TEST_RATE = "1/min"
    make_webhook(alice)
    emit_one(alice)
    end_deliveries(state="given_up")
    path = f"/v1/deliveries/{Delivery.objects.get().id}/redeliver"

    assert [api.call("POST", path).status_code for _ in range(3)] == [202] * 3


def test_a_refused_registration_is_not_counted(api, settings):
    settings.WEBHOOKS_PROBE_RATE = "1/min"

    refused = [register(api, "https://localhost/").status_code, register(api, events=["no.such_type"]).status_code]

    assert refused == [400, 400]
    assert [register(api).status_code for _ in range(2)] == [201, 429]


def test_a_refused_redelivery_of_a_test_is_not_counted(api, alice, settings):
    settings.WEBHOOKS_TEST_RATE = "1/min"
    webhook = make_webhook(alice)
    delivery = send_test_event(webhook, EVENT_TYPE)
    end_deliveries(state="given_up")
    Event.objects.update(body="")

    assert api.call("POST", f"/v1/deliveries/{delivery.id}/redeliver").status_code == 409
    assert send_test(api, webhook).status_code == 202


@pytest.mark.parametrize(
    ("setting", "limit", "words", "call"),
    [
        ("API", "requests", "requests with one API key", lambda api, webhook: api.call("GET", "/v1/webhooks")),
        ("TEST", "tests", "test events to one webhook", send_test),
        ("VERIFICATION", "verifications", "verifications of one webhook", verify),
        ("PROBE", "probes", "tests and verifications of one account", verify),
    ],
    ids=["requests", "tests", "verifications", "probes"],
)
def test_a_429_names_the_limit(api, alice, settings, clock, setting, limit, words, call):
    setattr(settings, f"WEBHOOKS_{setting}_RATE", "1/min")
    webhook = make_webhook(alice)
    call(api, webhook)

    answer = call(api, webhook)

    assert answer.json() == {
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "detail": f"Too many {words}: at most 1/min. Try again in 60 seconds.",
        "limit": limit,
    }


def test_probes_are_limited_if_requests_are_not(api, alice, settings):
    settings.WEBHOOKS_API_RATE = ""

    statuses = [register(api, f"https://hooks.example.com:{8000 + number}/").status_code for number in range(61)]

    assert statuses == [201] * 60 + [429]


class Unreachable(locmem.LocMemCache):
    def add(self, *args, **kwargs):
        raise ConnectionError("redis://:hunter2@cache refused the connection")


@pytest.fixture
def no_cache(settings):
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.Unreachable"}}


@pytest.mark.parametrize("probe", [send_test, verify], ids=["test", "verify"])
def test_probes_are_refused_while_the_cache_is_unavailable(api, alice, no_cache, probe):
    webhook = make_webhook(alice)

    answer = probe(api, webhook)

    assert (answer.status_code, answer["Content-Type"]) == (503, PROBLEM)
    assert "hunter2" not in answer.text
    assert not Delivery.objects.exists()


def test_a_registration_is_refused_while_the_cache_is_unavailable(api, no_cache):
    assert register(api).status_code == 503
    assert not Webhook.objects.exists()


def test_other_requests_are_answered_uncounted_with_a_log_entry(api, no_cache, settings, caplog):
    settings.WEBHOOKS_API_RATE = "1/min"

    assert [api.call("GET", "/v1/webhooks").status_code for _ in range(3)] == [200] * 3
    assert caplog.messages == ["The rate limit of requests cannot be counted in the cache."] * 3


def test_a_webhook_whose_host_is_no_longer_allowed_can_be_disabled_and_verified(api, alice, settings):
    webhook = make_webhook(alice)
    settings.WEBHOOKS_ALLOWED_NETWORKS = []

    assert verify(api, webhook).status_code == 202


def test_a_refused_request_is_not_counted(api, settings, clock):
    settings.WEBHOOKS_API_RATE = "1/min"
    for _ in range(3):
        api.call("GET", "/v1/webhooks")

    clock.now += 61

    assert api.call("GET", "/v1/webhooks").status_code == 200
