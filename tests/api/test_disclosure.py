"""Disclosure of facts about an unreachable URL, before and after its verification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction
from django.utils import timezone

from tests.delivery.conftest import ImpatientTransport, ManualClock
from tests.support.masked import CAUSES as FACTS
from tests.support.masked import make_rows, set_cause
from tests.support.rows import EVENT_TYPE, make_webhook, plan_replay
from webhooks_app import send_test_event
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import AuditEntry, Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.disclosure import unreachable_message
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.protocol.json_data import format_time
from webhooks_app.transport import errors

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite")]

NAME = "redis.default.example"
TIMES = ("2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z")
CAUSES = [
    pytest.param(errors.name_unknown(NAME), id="unresolved"),
    pytest.param(errors.name_timed_out(NAME, 5), id="slow-name-server"),
    pytest.param(errors.address_refused(NAME), id="refused"),
    pytest.param(errors.connect_timed_out(30), id="filtered"),
    pytest.param(errors.not_connected(NAME), id="closed"),
    pytest.param(errors.connection_lost(), id="reset"),
    pytest.param(errors.certificate_refused(10), id="certificate"),
    pytest.param(errors.handshake_failed(), id="tls"),
    pytest.param(errors.timed_out(30), id="silent"),
]


def deliver(answer, *, await_retries=False):
    clock = ManualClock()
    Engine(transport=ImpatientTransport(clock, answer), clock=clock).run_until_idle(await_retries=await_retries)
    DeliveryAttempt.objects.update(duration_ms=1234, peer="10.9.8.7")


@pytest.fixture
def unverified(alice):
    return make_webhook(alice, status="pending", url=f"https://{NAME}/")


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("kind", ["verification", "test"])
def test_the_cause_is_hidden_until_the_webhook_is_verified(api, unverified, cause, kind):
    send_test_event(unverified, EVENT_TYPE)
    deliver(cause)
    delivery = Delivery.objects.get(kind=kind)

    record = api.call("GET", f"/v1/deliveries/{delivery.id}").json()

    (attempt,) = record["attempts"]
    shown = ("unreachable", unreachable_message(cause.message), None)
    assert (attempt["result"], attempt["message"], attempt["duration_ms"]) == shown
    assert (record["next_attempt_at"], record["finished_at"], record["hold"]) == (None, None, None)
    assert "10.9.8.7" not in json.dumps(record)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_cause_is_hidden_after_a_failed_verification(api, unverified, cause):
    deliver(cause, await_retries=True)

    record = api.call("GET", f"/v1/webhooks/{unverified.id}").json()
    (delivery,) = api.call("GET", f"/v1/webhooks/{unverified.id}/deliveries").json()["results"]
    attempts = api.call("GET", f"/v1/deliveries/{delivery['id']}").json()["attempts"]

    assert (record["status"], record["status_reason"]) == ("failed", unreachable_message(cause.message))
    assert (record["status_changed_at"], delivery["finished_at"]) == (None, None)
    assert [attempt["started_at"] is None for attempt in attempts] == [False, True, True, True]


def test_the_owners_audit_log_hides_the_time_of_the_failure(api, unverified):
    deliver(errors.name_unknown(NAME), await_retries=True)

    entries = api.call("GET", f"/v1/webhooks/{unverified.id}/audit").json()["results"]

    assert [entry["action"] for entry in entries] == ["webhook.created"]
    assert AuditEntry.objects.filter(action="webhook.verification_failed").exists()


@pytest.mark.parametrize("cause", CAUSES[:6])
def test_a_filter_by_result_does_not_reveal_the_cause(api, unverified, cause):
    deliver(cause)
    (stored,) = Delivery.objects.values_list("last_result", flat=True)

    found = {
        result: len(api.call("GET", f"/v1/deliveries?result={result}").json()["results"])
        for result in (stored, "unreachable")
    }

    assert found == {stored: 0, "unreachable": 1}


def test_an_answer_of_an_unverified_url_is_explained(api, unverified):
    deliver(500)

    (delivery,) = api.call("GET", "/v1/deliveries").json()["results"]
    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery['id']}").json()["attempts"]

    assert (attempt["result"], attempt["response_status"], attempt["duration_ms"]) == ("http_status", 500, 1234)
    assert delivery["next_attempt_at"]


def test_the_cause_is_shown_for_tests_of_a_verified_webhook(api, alice):
    delivery = send_test_event(make_webhook(alice, url=f"https://{NAME}/"), EVENT_TYPE)
    deliver(errors.not_connected(NAME))

    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert (attempt["result"], attempt["duration_ms"]) == ("connection_error", 1234)
    assert len(api.call("GET", "/v1/deliveries?kind=test&result=connection_error").json()["results"]) == 1


def test_the_cause_for_a_replaced_unverified_url_remains_hidden(api, unverified):
    delivery = send_test_event(unverified, EVENT_TYPE)
    deliver(errors.not_connected(NAME))
    Webhook.objects.update(url="https://hooks.example.com/", status="active")

    (attempt,) = api.call("GET", f"/v1/deliveries/{delivery.id}").json()["attempts"]

    assert attempt["result"] == "unreachable"
    assert api.call("GET", "/v1/deliveries?result=connection_error").json()["results"] == []


def test_staff_see_the_cause(admin_client, unverified):
    deliver(errors.name_unknown(NAME), await_retries=True)

    page = admin_client.get(f"/admin/webhooks_app/webhook/{unverified.id}/change/?section=verification")

    assert errors.name_unknown(NAME).message in page.text


@pytest.mark.parametrize("again", [False, True], ids=["failed", "verified-again"])
def test_a_replay_hides_the_end_of_a_failed_verification(api, unverified, again):
    deliver(CAUSES[0].values[0], await_retries=True)
    handshake = Delivery.objects.get(kind="verification")
    if again:
        start_verification(Webhook.objects.get(), actor=PROJECT)

    planned = api.call("POST", "/v1/replays", {"webhook_id": unverified.id}).json()

    (period,) = planned["failing"]
    assert period["since"] == format_time(handshake.created_at)


@pytest.fixture
def addresses(api, alice, monkeypatch) -> dict[str, list[str]]:
    """The paths of all operations by method, with the identifiers of masked rows."""
    webhook = make_webhook(alice)
    replay = plan_replay(webhook)
    handshake, test = make_rows(webhook, EVENT_TYPE)
    ids = {"webhook_id": [webhook.pk], "replay_id": [replay.pk], "event_id": [test.event_id], "name": [EVENT_TYPE]}
    ids["delivery_id"] = [handshake.pk, test.pk]
    frozen = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: frozen)
    found: dict[str, list[str]] = {}
    for path, operations in api.get("/v1/openapi.json").json()["paths"].items():
        name = path.partition("{")[2].partition("}")[0]
        paths = [path.replace(f"{{{name}}}", value) for value in ids[name]] if name else [path]
        for method, operation in operations.items():
            found.setdefault(method, []).extend(paths)
            if method == "get":
                found["get"].extend(f"{path}?{query}" for path in paths for query in queries(operation, ids))
    return found


def queries(operation: dict[str, Any], ids: dict[str, list[str]]) -> Iterator[str]:
    """Yield a query for each choice of each parameter, for each identifier, and for times before and after all rows."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] != "query":
            continue
        schema = parameter["schema"]
        is_time = schema.get("format") == "date-time"
        for value in TIMES if is_time else schema.get("enum", ids.get(parameter["name"], ())):
            yield f"{parameter['name']}={value}"


def read(api, path: str) -> bytes:
    cache.clear()  # the counts of the rate limits
    answer = api.call("GET", path)
    assert answer.status_code == 200, path
    return answer.content


def test_no_read_tells_one_cause_from_another(api, addresses):
    answers = []
    for cause in FACTS:
        set_cause(cause)
        answers.append({path: read(api, path) for path in addresses["get"]})

    assert len(answers[0]) > 60
    assert [path for path in answers[0] if answers[0][path] != answers[1][path]] == []
    assert b'"result":"unreachable"' in b"".join(answers[0].values())


def test_no_other_answer_reveals_the_cause(api, addresses):
    revealed = []
    for cause in FACTS:
        set_cause(cause)
        for method in ("post", "patch", "delete"):
            for path in addresses[method]:
                body = {"webhook_id": Webhook.objects.get().pk, "event_type": EVENT_TYPE}
                for sent in ({}, body):
                    cache.clear()
                    with transaction.atomic():
                        answer = api.call(method.upper(), path, sent).content.decode()
                        transaction.set_rollback(True)
                    revealed += [(method, path, word) for word in cause.words if word in answer]

    assert revealed == []
