"""The new URL of an active webhook: the old one gets its deliveries until the new one is verified."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError

from webhooks_app.delivery.engine import Engine
from webhooks_app.delivery.sending import finish, request_for
from webhooks_app.exceptions import AlreadyInStateError
from webhooks_app.models import AuditEntry, QueueEntry, QueueLane, Webhook, WebhookHealth
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT, ApiCaller
from webhooks_app.operations.registration import update_webhook
from webhooks_app.reasons import ReasonText, code_of
from webhooks_app.signals import webhook_disabled, webhook_url_refused, webhook_verified
from webhooks_app.transport import Exchange, Response
from webhooks_app.transport import errors as failures

from ..delivery.conftest import echo_challenge, recorded
from ..support.rows import EVENT_TYPE, URL, deliveries, emit_one, make_backlog, make_webhook

pytestmark = pytest.mark.django_db

NEW_URL = "http://127.0.0.1:9001/new"
OTHER_URL = "http://127.0.0.1:9002/other"
VERIFICATION = "webhook.verification"


def move(webhook, url=NEW_URL, **changes):
    update_webhook(webhook, url=url, actor=PROJECT, **changes)


def sent_to(transport, url):
    """Return the types of the requests to a URL, in order."""
    return [json.loads(request.body)["type"] for request in transport.requests if request.url == url]


def refusing(transport, url, answer=404):
    """Make the receiver refuse everything that is sent to a URL."""
    answer_others = transport.answer
    transport.answer = lambda request: answer if request.url == url else answer_others(request)
    return transport


def last_entry(webhook):
    return AuditEntry.objects.about(webhook).order_by("-pk").first()


@pytest.mark.parametrize("order", ["none", "webhook", "key"])
def test_a_typo_in_a_new_url_loses_nothing(alice, receiver, deliver, order):
    webhook = make_webhook(alice, order=order)
    for _ in range(20):
        emit_one(alice)
    before = Webhook.objects.values("status", "status_changed_at", "paused_at", "encrypted_headers").get()

    move(webhook)
    transport = refusing(receiver(), NEW_URL)
    deliver(transport)

    assert sent_to(transport, NEW_URL) == [VERIFICATION] * 4
    assert sent_to(transport, URL) == [EVENT_TYPE] * 20
    assert {delivery.state for delivery in deliveries()} == {"succeeded"}
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.pending_url) == (URL, "")
    assert Webhook.objects.values(*before).get() == before
    assert webhook.status_reason == (
        f"The new URL {NEW_URL} failed its verification, so the webhook keeps its URL. Answered with status 404. "
        "Only status 200 confirms receipt."
    )
    entry = last_entry(webhook)
    assert (entry.action, entry.via, entry.changes) == (
        "webhook.verification_failed",
        "system",
        {"pending_url": [NEW_URL, ""]},
    )


def test_a_verified_url_replaces_the_old_one_in_one_step(alice, webhook, receiver, deliver):
    QueueLane.objects.create(webhook=webhook, is_fast=False)
    WebhookHealth.objects.create(webhook=webhook, failing_since=webhook.created_at, given_up_count=3)

    move(webhook)
    assert (webhook.url, webhook.pending_url, webhook.status) == (URL, NEW_URL, "active")
    assert last_entry(webhook).changes == {"pending_url": ["", NEW_URL]}
    assert (Webhook.objects.get().is_fast, WebhookHealth.objects.get().given_up_count) == (False, 3)
    transport = receiver()
    deliver(transport)
    emit_one(alice)
    deliver(transport)

    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.pending_url, webhook.status) == (NEW_URL, "", "active")
    assert WebhookHealth.objects.get().failing_since is None
    assert sent_to(transport, NEW_URL) == [VERIFICATION, EVENT_TYPE]
    assert sent_to(transport, URL) == []
    entry = last_entry(webhook)
    assert (entry.action, entry.via) == ("webhook.verified", "system")
    assert entry.changes == {"url": [URL, NEW_URL], "pending_url": [NEW_URL, ""]}


def test_the_end_of_a_change_sends_a_signal(webhook, receiver, deliver, django_capture_on_commit_callbacks):
    heard = []

    def hear(signal, **values):
        heard.append((signal, {name: values[name] for name in ("webhook_id", "url", "reason_code") if name in values}))

    for signal in (webhook_verified, webhook_disabled, webhook_url_refused):
        signal.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        move(webhook)
        deliver(refusing(receiver(), NEW_URL))
        move(webhook, OTHER_URL)
        deliver(receiver())
    for signal in (webhook_verified, webhook_disabled, webhook_url_refused):
        signal.disconnect(hear)

    assert heard == [
        (webhook_url_refused, {"webhook_id": webhook.pk, "url": NEW_URL, "reason_code": "status_not_200"}),
        (webhook_verified, {"webhook_id": webhook.pk}),
    ]


def test_another_change_replaces_the_pending_url(webhook, receiver, deliver):
    move(webhook)
    move(webhook, OTHER_URL)
    assert webhook.pending_url == OTHER_URL
    transport = receiver()

    deliver(transport)

    assert Webhook.objects.get().url == OTHER_URL
    assert sent_to(transport, NEW_URL) == []
    assert sorted(delivery.state_reason for delivery in deliveries("verification")) == ["", "superseded"]


def test_the_pending_url_given_again_is_not_verified_twice(webhook, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    for _ in range(3):
        update_webhook(webhook, url=NEW_URL, actor=ApiCaller(account=alice, owner=alice))

    assert len(deliveries("verification")) == 1


def test_the_current_url_withdraws_the_pending_one(webhook, receiver, deliver):
    move(webhook)
    move(webhook, URL)
    assert webhook.pending_url == ""
    transport = receiver()

    deliver(transport)

    assert transport.requests == []
    (handshake,) = deliveries("verification")
    assert (handshake.state, handshake.state_reason) == ("cancelled", "url_withdrawn")
    assert Webhook.objects.get().url == URL


def test_other_changes_leave_the_pending_url(webhook, receiver, deliver):
    move(webhook)
    update_webhook(webhook, description="mine", actor=PROJECT)
    assert webhook.pending_url == NEW_URL

    deliver(receiver())

    assert Webhook.objects.get().url == NEW_URL


def test_the_reason_of_a_failed_change_ends_with_the_next_change(webhook, receiver, deliver):
    move(webhook)
    deliver(refusing(receiver(), NEW_URL))
    update_webhook(webhook, description="mine", actor=PROJECT)
    assert code_of(Webhook.objects.get().status_reason) == "new_url_failed"

    move(webhook, OTHER_URL)

    assert Webhook.objects.get().status_reason == ""


def test_a_refused_url_is_not_pending(webhook):
    with pytest.raises(ValidationError):
        move(webhook, "http://192.168.0.1/")

    assert Webhook.objects.get().pending_url == ""


# Who pauses first sends nothing more to the old URL.


def test_the_new_url_of_a_paused_webhook_is_verified_during_the_pause(alice, webhook, receiver, deliver):
    emit_one(alice)
    webhook.pause()
    move(webhook)
    transport = receiver()

    deliver(transport)
    assert [(request.url, json.loads(request.body)["type"]) for request in transport.requests] == [
        (NEW_URL, VERIFICATION)
    ]
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.paused_at is None) == (NEW_URL, False)
    webhook.resume()
    deliver(transport)

    assert sent_to(transport, NEW_URL) == [VERIFICATION, EVENT_TYPE]
    assert sent_to(transport, URL) == []


def test_a_paused_webhook_whose_new_url_fails_stays_paused_and_loses_nothing(alice, webhook, receiver, deliver):
    emit_one(alice)
    webhook.pause()
    move(webhook)
    transport = refusing(receiver(), NEW_URL)

    deliver(transport)
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.status, webhook.paused_at is None) == (URL, "active", False)
    assert [delivery.state for delivery in deliveries()] == ["pending"]
    webhook.resume()
    deliver(transport)

    assert sent_to(transport, URL) == [EVENT_TYPE]


def test_a_pause_does_not_hold_the_verification_of_a_new_url(webhook, receiver, deliver):
    move(webhook)
    webhook.pause()

    deliver(receiver())

    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.paused_at is None) == (NEW_URL, False)


@pytest.mark.parametrize(
    "end", [lambda webhook: webhook.disable("Off."), Webhook.soft_delete], ids=["disabled", "deleted"]
)
def test_stopping_a_webhook_withdraws_its_pending_url(webhook, receiver, deliver, end):
    move(webhook)

    end(webhook)
    transport = receiver()
    deliver(transport)

    assert transport.requests == []
    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.pending_url) == (URL, "")
    assert last_entry(webhook).changes["pending_url"] == [NEW_URL, ""]


@pytest.mark.parametrize("status", ["pending", "failed"])
def test_a_webhook_that_is_not_active_has_one_url_only(alice, receiver, deliver, status):
    webhook = make_webhook(alice, status=status)

    move(webhook)
    assert (webhook.url, webhook.pending_url, webhook.status) == (NEW_URL, "", "pending")
    deliver(receiver())

    assert Webhook.objects.get().status == "active"


@pytest.mark.parametrize("is_paused", [True, False], ids=["paused", "running"])
def test_the_verification_of_a_pending_url_can_be_repeated(webhook, receiver, deliver, is_paused):
    move(webhook)
    if is_paused:
        webhook.pause()

    lifecycle.start_verification(webhook, actor=PROJECT)
    assert (webhook.status, webhook.pending_url) == ("active", NEW_URL)
    transport = receiver()
    deliver(transport)

    assert sent_to(transport, NEW_URL) == [VERIFICATION]
    webhook = Webhook.objects.get()
    assert webhook.url == NEW_URL
    with pytest.raises(AlreadyInStateError):
        lifecycle.start_verification(webhook, actor=PROJECT)


# In flight


def claimed_handshake(webhook, queue):
    """Return the claim of the webhook's handshake. The receiver has got it, and not answered yet."""
    (claim,) = queue.claim(10)
    assert (claim.kind, claim.lane.url) == ("verification", webhook.pending_url)
    return claim


def answered(claim, clock, response=None):
    request = request_for(claim, now=clock(), timeout_seconds=30)
    response = response or echo_challenge(request)
    return finish(Exchange(request=request, response=response, error=None, duration_seconds=0.1))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda webhook: move(webhook, OTHER_URL), (URL, OTHER_URL, "active"), id="another URL"),
        pytest.param(lambda webhook: move(webhook, URL), (URL, "", "active"), id="withdrawn"),
        pytest.param(lambda webhook: webhook.disable("Off."), (URL, "", "disabled"), id="disabled"),
        pytest.param(lambda webhook: move(webhook, NEW_URL), (NEW_URL, "", "active"), id="the same URL"),
        pytest.param(lambda webhook: webhook.pause(), (NEW_URL, "", "active"), id="paused"),
    ],
)
def test_a_change_while_the_handshake_is_in_flight_decides(webhook, queue, clock, change, expected):
    move(webhook)
    claim = claimed_handshake(webhook, queue)

    change(webhook)
    recorded(queue, [answered(claim, clock)], clock())

    webhook = Webhook.objects.get()
    assert (webhook.url, webhook.pending_url, webhook.status) == expected


def test_a_slow_new_url_does_not_make_the_webhook_slow(alice, webhook, queue, clock):
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    move(webhook)
    claim = claimed_handshake(webhook, queue)
    queue.slots.begin(claim, clock.monotonic())

    clock.advance(20)
    emit_one(alice)
    late = [each.kind for each in queue.claim(10)]
    item = answered(claim, clock, Response(status=500))
    queue.slots.note([item._replace(attempt=item.attempt._replace(duration_ms=20_000))], clock.monotonic())
    recorded(queue, [item], clock())
    queue.publish()

    assert late == ["event"]
    assert Webhook.objects.get().is_fast is True


@pytest.mark.parametrize("order", ["none", "webhook"])
def test_the_handshake_is_sent_before_a_long_backlog(alice, queue, clock, order):
    """Often the old URL is changed because it answers no more."""
    webhook = make_webhook(alice, order=order, max_in_flight=1)
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    make_backlog(webhook, 50)
    move(webhook)
    QueueEntry.objects.filter(kind="verification").update(due_at=clock())
    QueueEntry.objects.filter(kind="event").update(due_at=clock() - timedelta(hours=1))

    claims = queue.claim(50)

    assert [(claim.kind, claim.lane.url) for claim in claims] == [("verification", NEW_URL)]


@pytest.mark.parametrize("order", ["none", "webhook"])
def test_the_handshake_is_claimed_once_beside_a_webhook_without_room(alice, queue, clock, order):
    for rate_limit in (None, 0.01):
        webhook = make_webhook(alice, order=order, rate_limit=rate_limit)
        later = None if rate_limit is None else clock() + timedelta(hours=1)
        QueueLane.objects.create(webhook=webhook, is_fast=True, next_slot_at=later)
        make_backlog(webhook, 2)
        move(webhook)

    claims = queue.claim(50)

    assert len({claim.delivery_id for claim in claims}) == len(claims)
    assert [claim.kind for claim in claims].count("verification") == 1


def test_both_urls_share_the_limits_of_the_webhook(alice, queue, clock):
    webhook = make_webhook(alice, max_in_flight=3)
    QueueLane.objects.create(webhook=webhook, is_fast=True)
    make_backlog(webhook, 10)
    move(webhook)

    claims = queue.claim(50)

    assert sorted((claim.kind, claim.lane.url) for claim in claims) == [
        ("event", URL),
        ("event", URL),
        ("verification", NEW_URL),
    ]


# What goes where


def own_headers(transport, url):
    requests = [request for request in transport.requests if request.url == url]
    names = ("X-Own", "X-New")
    return [{name: value for name, value in request.headers if name in names} for request in requests]


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        pytest.param(NEW_URL, {}, {}, id="another host"),
        pytest.param(NEW_URL, {"headers": {"X-New": "new"}}, {"X-New": "new"}, id="another host with headers"),
        pytest.param(f"{URL}/new", {}, {"X-Own": "own"}, id="the same host"),
        pytest.param(f"{URL}/new", {"headers": {"X-New": "new"}}, {"X-New": "new"}, id="the same host with headers"),
    ],
)
def test_each_url_gets_its_own_headers(alice, receiver, deliver, url, given, expected):
    webhook = make_webhook(alice, headers={"X-Own": "own"})
    emit_one(alice)
    move(webhook, url, **given)
    update_webhook(webhook, description="Headers stay where they are.", actor=PROJECT)
    transport = refusing(receiver(), url)
    deliver(transport)
    assert own_headers(transport, URL) == [{"X-Own": "own"}]
    assert own_headers(transport, url) == [expected] * 4

    move(webhook, url, **given)
    transport = receiver()
    deliver(transport)
    emit_one(alice)
    deliver(transport)

    assert own_headers(transport, url) == [expected] * 2
    assert set(Webhook.objects.get().headers) == set(expected)


def test_a_corrected_url_keeps_the_headers_given_for_its_host(alice, receiver, deliver):
    webhook = make_webhook(alice, headers={"X-Own": "own"})
    move(webhook, f"{NEW_URL}/typo", headers={"X-New": "new"})
    move(webhook, NEW_URL)
    transport = receiver()

    deliver(transport)

    assert own_headers(transport, NEW_URL) == [{"X-New": "new"}]


def test_a_withdrawn_url_leaves_no_headers(alice):
    webhook = make_webhook(alice, headers={"X-Own": "own"})
    move(webhook, f"{URL}/new", headers={"X-New": "new"})

    move(webhook, URL)

    webhook = Webhook.objects.get()
    assert (list(webhook.headers), webhook.pending_headers) == (["X-Own"], [])


def test_headers_changed_later_apply_to_both_urls_of_a_host(alice, receiver, deliver):
    webhook = make_webhook(alice, headers={"X-Own": "own"})
    move(webhook, f"{URL}/new")
    update_webhook(webhook, headers={"X-New": "new"}, actor=PROJECT)
    transport = receiver()

    deliver(transport)

    assert own_headers(transport, f"{URL}/new") == [{"X-New": "new"}]
    assert list(Webhook.objects.get().headers) == ["X-New"]


def test_the_cause_of_an_unreachable_new_url_is_not_disclosed(webhook, receiver, deliver):
    move(webhook)
    deliver(refusing(receiver(), NEW_URL, failures.certificate_refused(10)))

    webhook = Webhook.objects.get()
    assert webhook.status_reason.endswith(ReasonText("unreachable_certificate"))
    (handshake,) = webhook.deliveries.handshakes().for_owner()
    assert {attempt.result for attempt in handshake.shown_attempts()} == {"unreachable"}
    assert list(AuditEntry.objects.about(webhook).for_owner().values_list("action", flat=True))[:1] == [
        "webhook.changed"
    ]


def test_answers_of_a_new_url_from_before_its_verification_are_not_shown(webhook, receiver, deliver):
    move(webhook)
    transport = receiver()
    answers = [Response(status=404, body=b"internal")]
    transport.answer = lambda request: answers.pop() if answers else echo_challenge(request)
    deliver(transport)

    assert Webhook.objects.get().url == NEW_URL
    (handshake,) = webhook.deliveries.handshakes().for_owner()
    assert [(attempt.response_status, attempt.response_body) for attempt in handshake.shown_attempts()] == [
        (404, ""),
        (200, ""),
    ]


def test_results_of_the_old_url_are_shown_during_the_change(alice, webhook, receiver, deliver, clock):
    emit_one(alice)
    move(webhook)
    transport = refusing(refusing(receiver(), NEW_URL), URL, failures.certificate_refused(10))
    Engine(transport=transport, clock=clock).run_until_idle(await_retries=False)

    (delivery,) = webhook.deliveries.filter(kind="event").for_owner()
    assert [attempt.result for attempt in delivery.shown_attempts()][:1] == ["tls_error"]
