"""Creating, changing, testing and ending webhooks on the customers' pages."""

from __future__ import annotations

from base64 import b64decode
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import F
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from tests.support.reading import figure, named, parsed, words
from webhooks_app import emit
from webhooks_app.maintenance.jobs import fold_tallies
from webhooks_app.models import AuditEntry, Delivery, DeliveryAttempt, QueueEntry, Webhook, WebhookHealth
from webhooks_app.models.audit import Via
from webhooks_app.models.lane import QueueLane
from webhooks_app.models.order import BEGUN
from webhooks_app.models.standing import health_of
from webhooks_app.operations.actors import PROJECT, StaffMember
from webhooks_app.operations.lifecycle import pause, resume
from webhooks_app.operations.sending import send_test_event
from webhooks_app.pages.display import moment
from webhooks_app.testing import Webhooks

from ..support.rows import EVENT_TYPE, emit_one, end_deliveries, make_webhook
from .conftest import Customer

pytestmark = pytest.mark.django_db

FUTURE = timezone.now() + timedelta(hours=5)
SOON = moment(FUTURE, "in 5 h")
NEW = {"url": "http://127.0.0.1:9000/new", "event_types": ["file.deleted"], "description": "Archive"}


def text(response: Any) -> str:
    return str(response.content.decode()).replace("<wbr>", "")


def settings_of(webhook: Webhook, **changes: Any) -> dict[str, Any]:
    """Return the fields of the form of settings."""
    fields = {
        "url": webhook.url,
        "event_types": webhook.event_types,
        "description": webhook.description,
        "signatures": webhook.signatures,
        "accepted_statuses": webhook.accepted_statuses,
        "order": webhook.order,
        "retry_notices": "on",
        "headers": "\n".join(f"{name}: {value}" for name, value in webhook.headers.items()),
    }
    return {**fields, **changes}


def test_a_new_webhook_shows_its_secret_once(amina: Customer) -> None:
    shown = amina.post("webhook-new", **NEW)

    webhook = Webhook.objects.get(description="Archive")
    again = amina.client.get(shown.request["PATH_INFO"])
    assert webhook.owner == amina.user
    assert webhook.secret in text(shown)
    assert f"listen_webhooks --port 9000 --secret={webhook.secret}" in text(shown)
    assert f"WEBHOOK_SECRET={webhook.secret} PORT=9000 python3 receiver.py" in text(shown)
    assert "Verification in progress" in text(shown)
    assert webhook.secret not in text(again)
    assert "already been shown" in text(again)
    entry = AuditEntry.objects.get(subject=webhook.pk, action="webhook.created")
    assert (entry.via, entry.actor) == (Via.PORTAL, amina.user)


@pytest.mark.parametrize(
    ("status", "handshake", "comes", "can_verify"),
    [
        ("pending", "pending", True, True),
        ("pending", "given_up", False, True),
        ("failed", "given_up", False, True),
        ("disabled", "cancelled", False, False),
        ("active", "succeeded", False, False),
    ],
)
def test_the_page_of_a_new_secret_announces_only_a_challenge_that_comes(
    amina: Customer, status: str, handshake: str, comes: bool, can_verify: bool
) -> None:
    webhook = make_webhook(amina.user, status="pending")
    if handshake != "pending":
        end_deliveries(Delivery.objects.filter(webhook=webhook), state=handshake)
    Webhook.objects.filter(pk=webhook.pk).update(status=status)

    shown = text(amina.post("webhook-rotate", webhook.pk, overlap_hours="2"))

    assert "It is not shown again." in shown
    assert ("The URL gets a request with a challenge" in shown) is comes
    assert ("verify the webhook on its page" in shown) is can_verify


def test_the_command_for_an_ordinary_url_has_a_free_port(amina: Customer) -> None:
    shown = amina.post("webhook-new", **{**NEW, "url": "https://receiver.example.com/hooks"})

    assert "listen_webhooks --port 8001 --secret=" in text(shown)
    assert "PORT=8001 python3 receiver.py" in text(shown)


def test_a_form_that_is_sent_twice_creates_one_webhook(amina: Customer) -> None:
    form = {**NEW, "submission": "x"}

    first = amina.post("webhook-new", follow=False, **form)
    second = amina.post("webhook-new", follow=False, **form)

    assert first.headers["Location"] == second.headers["Location"]
    assert Webhook.objects.filter(description="Archive").count() == 1


def test_a_refused_url_is_explained_on_the_form(amina: Customer) -> None:
    refused = amina.post("webhook-new", **{**NEW, "url": "http://10.0.0.1/"})

    assert refused.status_code == 200
    assert "10.0.0.1" in text(refused)
    (error,) = refused.context["form"].errors.as_data()["url"]
    assert error.code == "address"
    assert not Webhook.objects.filter(description="Archive").exists()


def test_the_ascii_form_of_an_international_url_is_offered_as_a_button(amina: Customer) -> None:
    form, offered = {**NEW, "url": "http://bücher.example/ä"}, "http://xn--bcher-kva.example/%C3%A4"

    refused = amina.post("webhook-new", **form)
    entered = amina.post("webhook-new", **form, use_url=offered)

    assert f'name="use_url" value="{offered}"' in text(refused)
    assert f'name="url" value="{offered}"' in text(entered)
    assert not Webhook.objects.filter(description="Archive").exists()


def test_a_refused_url_is_explained_together_with_other_errors(amina: Customer) -> None:
    refused = amina.post("webhook-new", url="http://10.0.0.1/", event_types=[])

    assert set(refused.context["form"].errors) == {"url", "event_types"}


def test_customers_learn_by_what_a_firewall_recognises_the_requests(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_USER_AGENT = "Acme/1"
    created = text(amina.post("webhook-new", **NEW))
    settings.WEBHOOKS_EGRESS_ADDRESSES = ["203.0.113.7", "2001:db8:7::/64"]
    code = text(amina.get("webhook-code", amina.webhook.pk))

    assert "User-Agent" in created
    assert "Acme/1" in created
    assert "Sent from" not in created
    assert all(each in code for each in ("Acme/1", "Sent from", "203.0.113.7", "2001:db8:7::/64"))


def test_a_secret_is_not_shown_in_another_session(amina: Customer, boris: Customer) -> None:
    made = amina.post("webhook-new", follow=False, **NEW)

    foreign = boris.client.get(made.headers["Location"])
    own = amina.client.get(made.headers["Location"])

    assert foreign.status_code == 404
    assert Webhook.objects.get(description="Archive").secret in text(own)


def test_a_new_webhook_takes_three_fields_and_a_secret_only_if_the_customer_wants(amina: Customer) -> None:
    page = text(amina.get("webhook-new"))
    fields, _, more = page.partition("<summary>Use a secret of your own")
    refused = text(amina.post("webhook-new", **NEW, secret="short"))
    amina.post("webhook-new", **NEW, secret="a secret of the customer")

    assert [f'name="{name}"' in fields for name in ("url", "event_types", "description", "secret")] == [True] * 3 + [
        False
    ]
    assert ('name="secret"' in more, 'name="submission"' in more) == (True, True)
    assert named(refused, "Use a secret of your own").has_attr("open")
    assert Webhook.objects.get(description="Archive").secret == "a secret of the customer"


def test_a_failed_verification_is_explained(amina: Customer) -> None:
    webhook = make_webhook(amina.user, status="pending")
    handshake = Delivery.objects.get(webhook=webhook)
    end_deliveries(
        Delivery.objects.filter(pk=handshake.pk), state="given_up", attempt_count=1, last_result="http_status"
    )
    handshake.attempts.create(
        number=1,
        url=webhook.url,
        started_at=handshake.created_at,
        result="wrong_challenge",
        message="Answered with another challenge.",
        response_status=200,
        response_body="not for the owner",
    )

    shown = text(amina.get("webhook", webhook.pk))

    assert "Not verified: Answered with another challenge. Once the receiver works, verify again." in shown
    assert "not for the owner" not in shown


def test_a_new_url_is_shown_beside_the_one_in_use(amina: Customer) -> None:
    url, pk = amina.webhook.url, amina.webhook.pk
    before = text(amina.get("webhook-settings", pk))
    amina.post("webhook-settings", pk, **settings_of(amina.webhook, url=NEW["url"]))

    assert "Events go on to the current URL until a new one is verified. If nothing more may be sent" in before
    both = f"Events go to {url} until {NEW['url']} is verified."
    assert both in text(amina.get("webhook", pk))
    assert f"until {NEW['url']} is verified" in text(amina.get("webhooks"))
    form = text(amina.get("webhook-settings", pk))
    assert f"{both} Enter the current URL again to keep it." in form
    assert f'value="{NEW["url"]}"' in form


def test_other_settings_can_be_saved_while_a_new_url_is_verified(amina: Customer) -> None:
    amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook, url=NEW["url"]))
    form = amina.get("webhook-settings", amina.webhook.pk).context["form"]
    shown = settings_of(amina.webhook, url=form.initial["url"])

    amina.post("webhook-settings", amina.webhook.pk, **{**shown, "description": "Saved meanwhile"})
    amina.webhook.refresh_from_db()
    assert (amina.webhook.description, amina.webhook.pending_url) == ("Saved meanwhile", NEW["url"])

    amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook))
    amina.webhook.refresh_from_db()
    assert amina.webhook.pending_url == ""


def test_a_failed_new_url_is_explained(amina: Customer) -> None:
    with Webhooks() as webhooks:
        webhooks.receiver.passes_handshakes = False
        amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook, url=NEW["url"]))
        webhooks.deliver()

    shown = text(amina.get("webhook", amina.webhook.pk))

    assert f"The new URL {NEW['url']} failed its verification, so the webhook keeps its URL." in shown
    assert "The webhook keeps its URL. Once the receiver works, enter the URL again." in shown


def test_only_changed_settings_are_saved(amina: Customer) -> None:
    form = settings_of(amina.webhook, description="New", filter='{"error": "x"}', headers="X-Tenant: acme")

    answer = amina.post("webhook-settings", amina.webhook.pk, **form)

    amina.webhook.refresh_from_db()
    assert "Saved the settings." in text(answer)
    assert (amina.webhook.description, amina.webhook.filter) == ("New", {"error": "x"})
    assert amina.webhook.headers == {"X-Tenant": "********"}
    (changed,) = AuditEntry.objects.filter(subject=amina.webhook.pk, action="webhook.changed")
    assert set(changed.changes) == {"description", "filter", "header_fingerprints"}


def test_the_page_of_settings_has_every_field_that_it_saves(amina: Customer) -> None:
    """What the page leaves out would come back empty, and erase what the API or the console has set."""
    answer = amina.get("webhook-settings", amina.webhook.pk)

    shown = {field["name"] for field in parsed(text(answer)).select("form [name]")}
    assert answer.context["form"].fields.keys() <= shown


def test_a_wrong_filter_is_refused_on_its_field(amina: Customer) -> None:
    form = settings_of(amina.webhook, filter='{"titel": "x"}')

    answer = amina.post("webhook-settings", amina.webhook.pk, **form)

    amina.webhook.refresh_from_db()
    assert answer.context["form"].errors["filter"]
    assert amina.webhook.filter is None


def test_an_event_type_that_the_owner_does_not_see_is_refused(amina: Customer) -> None:
    form = settings_of(amina.webhook, event_types=["webhook.disabled"])

    answer = amina.post("webhook-settings", amina.webhook.pk, **form)

    assert answer.context["form"].errors["event_types"]


def test_a_rotation_shows_the_new_secret_once(amina: Customer) -> None:
    before = amina.webhook.secret

    shown = amina.post("webhook-rotate", amina.webhook.pk, overlap_hours="2")

    webhook = Webhook.objects.get(pk=amina.webhook.pk)
    assert webhook.secret != before
    assert webhook.secret in text(shown)
    assert webhook.previous_secret_until is not None
    amina.post("webhook-action", webhook.pk, "revoke-previous-secret")
    assert Webhook.objects.get(pk=webhook.pk).previous_secret_until is None


def test_a_prepared_secret_signs_after_its_activation(amina: Customer) -> None:
    before = amina.webhook.secret

    shown = text(amina.post("webhook-rotate", amina.webhook.pk, start="prepared", overlap_hours="2"))

    prepared = Webhook.objects.get(pk=amina.webhook.pk)
    new = prepared.prepared_key("native").key
    assert prepared.secret == before
    assert new in shown
    page = text(amina.get("webhook-settings", prepared.pk))
    assert all(words in page for words in ("New secret is activated", "Activate the new secret", "Withdraw"))

    assert "Activated the new secret." in text(amina.post("webhook-action", prepared.pk, "activate-secret"))
    active = Webhook.objects.get(pk=prepared.pk)
    assert (active.secret, active.previous_key("native").key) == (new, before)
    assert "Withdraw" not in text(amina.get("webhook-settings", prepared.pk))


def test_a_prepared_secret_is_withdrawn(amina: Customer) -> None:
    before = amina.webhook.secret
    amina.post("webhook-rotate", amina.webhook.pk, start="prepared")

    amina.post("webhook-action", amina.webhook.pk, "withdraw-secret")

    webhook = Webhook.objects.get(pk=amina.webhook.pk)
    assert (webhook.secret, webhook.prepared_key("native")) == (before, None)


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        ("pause", "active", "Paused the webhook."),
        ("disable", "disabled", "Disabled the webhook."),
        ("delete", "active", "Deleted the webhook."),
    ],
)
def test_an_action_is_confirmed_first(amina: Customer, action: str, status: str, words: str) -> None:
    question = amina.get("webhook-action", amina.webhook.pk, action)
    before = Webhook.objects.get(pk=amina.webhook.pk)

    answer = amina.post("webhook-action", amina.webhook.pk, action)

    webhook = Webhook.objects.get(pk=amina.webhook.pk)
    assert question.status_code == 200
    assert before.paused_at is before.deleted_at is None
    assert words in text(answer)
    assert webhook.status == status
    assert (webhook.paused_at is not None, webhook.deleted_at is not None) == (action == "pause", action == "delete")


def test_an_action_that_came_too_late_is_explained(amina: Customer) -> None:
    amina.post("webhook-action", amina.webhook.pk, "pause")

    answer = amina.post("webhook-action", amina.webhook.pk, "pause")

    assert "paused" in text(answer)
    assert 'role="alert"' in text(answer)


def test_a_tab_from_before_the_verification_stops_no_events(amina: Customer) -> None:
    asked = amina.client.get(amina.url("webhook-action", amina.webhook.pk, "verify"), follow=True)
    answer = amina.post("webhook-action", amina.webhook.pk, "verify")

    assert "is verified already. Its events are sent." in text(asked)
    assert "is verified already. Its events are sent." in text(answer)
    assert Webhook.objects.get(pk=amina.webhook.pk).status == "active"


def test_a_disabled_webhook_is_enabled_by_a_new_verification(amina: Customer) -> None:
    amina.post("webhook-action", amina.webhook.pk, "disable")

    answer = amina.post("webhook-action", amina.webhook.pk, "enable")

    assert Webhook.objects.get(pk=amina.webhook.pk).status == "pending"
    assert "Verification in progress" in text(answer)


def test_a_paused_webhook_is_not_said_to_be_verified_now(amina: Customer) -> None:
    amina.post("webhook-action", amina.webhook.pk, "disable")
    amina.post("webhook-action", amina.webhook.pk, "enable")
    amina.post("webhook-action", amina.webhook.pk, "pause")

    shown = text(amina.get("webhook", amina.webhook.pk))

    assert "verified once somebody resumes it" in shown
    assert ("Not verified yet." in shown, "Verification in progress" in shown) == (True, False)


def test_a_test_event_shows_its_answer_below(amina: Customer) -> None:
    data = '{"error": "made up"}'

    waiting = amina.post("webhook-test", amina.webhook.pk, event_type="ppt.generation.failed", event_data=data)
    test = Delivery.objects.get(kind="test")

    assert test.event is not None
    assert test.event.data == {"error": "made up"}
    assert "data-expected" in text(waiting)
    assert "Answer to the last test" in text(waiting)


def test_test_data_that_does_not_fit_is_refused(amina: Customer) -> None:
    answer = amina.post("webhook-test", amina.webhook.pk, event_type="ppt.generation.failed", event_data='{"x": 1}')

    assert answer.context["form"].errors["event_data"]
    assert not Delivery.objects.filter(kind="test").exists()


def test_the_remedy_of_a_failing_webhook_sends_what_it_missed(amina: Customer) -> None:
    since = timezone.now() - timedelta(minutes=10)
    WebhookHealth.objects.create(
        webhook=amina.webhook, failing_since=since, given_up_since=since, last_given_up_at=since, given_up_count=1
    )
    head = named(text(amina.get("webhook", amina.webhook.pk)), "State")
    button = head.find("a", string="Send 1 missed event")

    assert button is not None
    assert "Last failure: " in head.text
    question = amina.client.get(button["href"])
    answer = amina.client.post(button["href"], follow=True)
    assert "1 event was missed." in text(question)
    assert answer.context["replay"].webhook == amina.webhook


def test_events_behind_one_that_fails_lead_to_it_and_its_retry(amina: Customer) -> None:
    Webhook.objects.update(order="webhook")
    first, second = (emit_one(amina.user).deliveries.get() for _ in range(2))
    retry = {"attempt": 1, "due_at": FUTURE, "place": F("place") - BEGUN}
    QueueEntry.objects.filter(pk=first.pk).update(**retry)
    Delivery.objects.filter(pk=first.pk).update(attempt_count=1, last_result="http_status")
    attempt = {"url": "https://a.example", "started_at": timezone.now(), "result": "http_status"}
    DeliveryAttempt.objects.create(delivery=first, number=1, response_status=503, **attempt)

    head = named(text(amina.get("webhook", amina.webhook.pk)), "State")
    behind = parsed(text(amina.get("delivery", second.pk)))
    button = head.find("button", string="Retry the event in front")
    amina.client.post(button.find_parent("form")["action"], {button["name"]: button["value"]})

    assert head.find("a", string=EVENT_TYPE)["href"] == amina.url("delivery", first.pk)
    assert "Its attempt 1 of 4 failed: Answered with status 503. Next attempt in 5 h" in words(str(head))
    assert behind.find("a", string="See the event in front")["href"] == amina.url("delivery", first.pk)
    assert "Its attempt 1 of 4 failed: Answered with status 503." in words(str(behind))
    assert QueueEntry.objects.get(pk=first.pk).due_at < FUTURE


def test_a_webhook_names_who_paused_it_but_no_staff(amina: Customer) -> None:
    amina.post("webhook-action", amina.webhook.pk, "pause", reason="Moving")
    by_itself = named(text(amina.get("webhook", amina.webhook.pk)), "State").text
    resume(amina.webhook, actor=PROJECT)
    root = get_user_model().objects.create_superuser("root")
    pause(amina.webhook, actor=StaffMember(account=root), reason="Too many errors")
    by_staff = named(text(amina.get("webhook", amina.webhook.pk)), "State").text

    assert "(amina, the customers' pages)" in by_itself.partition("Paused since")[2]
    assert "(console)" in by_staff.partition("Paused since")[2]
    assert "Too many errors" in by_staff
    assert "root" not in by_staff


def test_the_state_stands_on_every_section_of_a_webhook(amina: Customer) -> None:
    first = text(amina.get("webhook", amina.webhook.pk))
    sections = [link["href"] for link in named(first, "Sections").find_all("a")]

    heads = [named(text(amina.client.get(section)), "State").h1.text for section in sections]

    assert heads == ["Webhook"] * 4


def test_errors_are_summed_up_where_the_focus_is(amina: Customer) -> None:
    page = parsed(text(amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook, filter="{"))))

    summary = page.find(attrs={"role": "alert"})
    assert summary.has_attr("autofocus")
    assert summary.find("a")["href"] == "#id_filter"
    assert [part["id"] for part in page.find_all("details") if part.has_attr("open")] == ["what"]


@pytest.mark.parametrize(
    ("status", "is_tested", "done"),
    [(None, False, 0), ("pending", False, 1), ("active", False, 2), ("active", True, None)],
)
def test_the_steps_of_a_first_visit_tick_themselves_off(status: str | None, is_tested: bool, done: int | None) -> None:
    owner, client = get_user_model().objects.create_user("clara"), Client()
    client.force_login(owner)
    if status:
        webhook = make_webhook(owner, status=status)
    if is_tested:
        send_test_event(webhook, EVENT_TYPE)
        end_deliveries(Delivery.objects.filter(kind="test"), state="succeeded")

    page = text(client.get(f"/webhooks/{owner.pk}/"))

    assert ("Send a test event" in page, page.count("(done)")) == ((True, done) if done is not None else (False, 0))


def test_tests_are_limited(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_TEST_RATE = "1/min"
    form = {"event_type": "ppt.generation.failed", "event_data": ""}

    amina.post("webhook-test", amina.webhook.pk, **form)
    refused = amina.post("webhook-test", amina.webhook.pk, **form)

    assert "Try again" in text(refused) or "seconds" in text(refused)
    assert Delivery.objects.filter(kind="test").count() == 1


def test_the_list_is_filtered_by_state_and_text(amina: Customer) -> None:
    other = make_webhook(amina.user, url="http://127.0.0.1:9000/billing", status="disabled")

    by_state = text(amina.get("webhooks", health="disabled"))
    by_text = text(amina.get("webhooks", q="billing"))

    for shown in (by_state, by_text):
        assert escape(other.url) in shown
        assert amina.url("webhook", amina.webhook.pk) not in shown


def test_the_overview_has_the_response_times_of_several_webhooks() -> None:
    kit, owner, client = Webhooks(), get_user_model().objects.create_user("amina"), Client()
    for _ in range(2):
        kit.register(owner, EVENT_TYPE)
    emit_one(owner)
    kit.deliver()
    fold_tallies("default", timezone.now(), {})
    client.force_login(owner)

    html = text(client.get(f"/webhooks/{owner.pk}/"))

    assert figure(html, "Delivered") == "2 100%"
    assert figure(html, "Response time, 95th percentile") == "10 ms"


def test_the_overview_names_what_needs_attention(amina: Customer) -> None:
    well = text(amina.get("overview"))
    amina.webhook.disable("Too many failures.")

    ill = text(amina.get("overview"))

    assert "Healthy" in well
    assert "1 webhook needs attention." in ill
    assert "Too many failures." in ill
    assert amina.url("webhook-action", amina.webhook.pk, "enable") in str(named(ill, "State"))


@pytest.mark.parametrize(
    ("health", "entry", "sentence"),
    [
        ({}, {}, "2 events wait."),
        (
            {"trouble": "partly"},
            {"attempt": 1, "due_at": FUTURE},
            f"2 events wait; the next attempt is {SOON}.",
        ),
    ],
    ids=["delayed", "partly failing"],
)
def test_a_webhook_says_how_many_events_wait(
    amina: Customer, health: dict[str, Any], entry: dict[str, Any], sentence: str
) -> None:
    for _ in range(2):
        emit_one(amina.user)
    QueueEntry.objects.update(**{"due_at": timezone.now() - timedelta(minutes=5), **entry})
    WebhookHealth.objects.create(webhook=amina.webhook, last_success_at=timezone.now(), **health)

    assert sentence in text(amina.get("webhook", amina.webhook.pk))


def test_no_event_is_said_to_be_given_up_in_the_past(amina: Customer) -> None:
    """While no worker runs, the next attempt of a failing webhook is delayed, and so is the last one."""
    now = timezone.now()
    emit_one(amina.user)
    QueueEntry.objects.update(due_at=now - timedelta(hours=1), attempt=1)
    failing = {"failing_since": now - timedelta(hours=2), "refused_since": now - timedelta(hours=2)}
    WebhookHealth.objects.create(webhook=amina.webhook, refused_at=now, refused_count=3, **failing)

    outlook = health_of(amina.webhook).outlook
    shown = text(amina.get("webhook", amina.webhook.pk))

    assert outlook.given_up_at >= now
    assert "1 event waits; the next attempt is" in shown
    assert ">delayed</time>." in shown


def test_a_failing_webhook_says_why(amina: Customer) -> None:
    since = amina.webhook.created_at
    Webhook.objects.update(status_changed_at=since)
    WebhookHealth.objects.create(
        webhook=amina.webhook, failing_since=since, given_up_since=since, last_given_up_at=since, given_up_count=1
    )
    amina.delivery.attempts.update(message="Answered with status 503. Only status 200 confirms receipt.")

    shown = text(amina.get("webhook", amina.webhook.pk))

    assert "Failing" in shown
    assert "Status since" not in shown
    assert "Last failure: Answered with status 503. Only status 200 confirms receipt." in shown
    assert amina.url("delivery", amina.delivery.pk) in shown


@pytest.mark.parametrize(
    ("fields", "is_shown"),
    [({}, True), ({"status": "disabled"}, True), ({"paused_at": timezone.now()}, False)],
    ids=["healthy", "disabled", "paused"],
)
def test_a_state_that_began_with_the_status_says_since_when(amina: Customer, fields: Any, is_shown: bool) -> None:
    Webhook.objects.update(status_changed_at=timezone.now(), **fields)

    shown = text(amina.get("webhook", amina.webhook.pk))

    assert ("Status since" in shown) is is_shown


def test_a_failing_webhook_whose_attempts_are_deleted_has_a_page(amina: Customer) -> None:
    since = amina.webhook.created_at
    WebhookHealth.objects.create(
        webhook=amina.webhook, failing_since=since, given_up_since=since, last_given_up_at=since, given_up_count=1
    )
    amina.delivery.attempts.all().delete()

    page = amina.get("webhook", amina.webhook.pk)

    assert page.status_code == 200
    assert "Failing" in text(page)


def test_a_new_account_is_led_to_its_first_webhook(amina: Customer) -> None:
    Webhook.objects.all().delete()

    shown = text(amina.get("overview"))

    assert "No webhooks yet" in shown
    assert amina.url("webhook-new") in shown


def test_settings_without_a_signature_say_that_it_stays(amina: Customer) -> None:
    saved = amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook, signatures=[]))

    assert "No signature is selected. The signatures stay unchanged: native." in text(saved)
    assert "Saved the settings." not in text(saved)
    assert not AuditEntry.objects.filter(action="webhook.updated").exists()


def test_an_added_signature_shows_its_public_key(amina: Customer) -> None:
    signatures = ["native", "standard-ed25519"]

    saved = amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook, signatures=signatures))

    (key,) = Webhook.objects.get(pk=amina.webhook.pk).public_keys
    assert f"The new public key is {key['key']}. Receivers verify with it." in text(saved)


def test_during_a_rotation_the_old_public_key_says_until_when_it_is_valid(amina: Customer) -> None:
    webhook = make_webhook(amina.user, signatures=["standard-ed25519"])
    amina.post("webhook-rotate", webhook.pk, overlap_hours="2")
    current, old = Webhook.objects.get(pk=webhook.pk).public_keys

    shown = text(amina.get("webhook-code", webhook.pk))

    assert "The Python code needs the package <code>cryptography</code>." in shown
    assert f"{escape(current['key'])}</code> (current)</p>" in shown
    assert f"{escape(old['key'])}</code> (previous, signs until {moment(old['valid_until'])})" in shown


def test_a_prepared_public_key_says_when_it_becomes_the_current_one(amina: Customer) -> None:
    webhook = make_webhook(amina.user, signatures=["standard-ed25519"])
    webhook.rotate_secret(scheme="standard-ed25519", activate_at=timezone.now() + timedelta(hours=2))
    prepared, current = Webhook.objects.get(pk=webhook.pk).public_keys

    for page in ("webhook", "webhook-code"):
        shown = text(amina.get(page, webhook.pk))
        assert f"(next, current from {moment(prepared['valid_from'])} on)" in shown.partition(prepared["key"])[2][:200]
        assert "(current)" in shown.partition(current["key"])[2][:200]


def test_customers_are_not_told_about_workers_and_their_settings(amina: Customer) -> None:
    delivery = Delivery.objects.get(event=emit_one(amina.user))
    QueueLane.objects.create(webhook=amina.webhook, unsigned_until=timezone.now() + timedelta(minutes=1))

    shown = text(amina.get("delivery", delivery.pk))

    assert "Requests to the webhook cannot be signed at the moment." in shown
    assert "SECRET_KEY" not in shown


def test_a_filter_is_tried_on_the_last_events_before_it_is_saved(amina: Customer) -> None:
    other = emit_one(amina.user, error="No outline")
    source = '{"error": "No outline"}'

    tried = amina.post("webhook-settings", amina.webhook.pk, **settings_of(amina.webhook, filter=source), try_filter=1)

    assert "The filter would have matched 1 of the last 2 events." in text(tried)
    assert amina.url("event", other.pk) in text(tried)
    assert amina.url("event", amina.event.pk) in text(tried)
    assert escape(source) in text(tried)
    assert Webhook.objects.get(pk=amina.webhook.pk).filter is None


def test_a_filter_that_is_not_valid_is_explained_when_it_is_tried(amina: Customer) -> None:
    form = settings_of(amina.webhook, filter='{"$unknown": 1}')

    tried = amina.post("webhook-settings", amina.webhook.pk, **form, try_filter=1)

    assert tried.context["form"].errors["filter"]
    assert "would have matched" not in text(tried)


def test_the_reason_of_a_stop_is_shown_to_the_account(amina: Customer) -> None:
    question = amina.get("webhook-action", amina.webhook.pk, "disable")
    amina.post("webhook-action", amina.webhook.pk, "disable", reason="The receiver moves.")

    assert "Disable this webhook?" in text(question)
    assert "Disabled by its account: The receiver moves." in text(amina.get("webhook", amina.webhook.pk))


def test_the_reason_of_a_pause_is_shown_to_the_account(amina: Customer) -> None:
    amina.post("webhook-action", amina.webhook.pk, "pause", reason="The receiver moves.")

    assert "The receiver moves." in text(amina.get("webhook", amina.webhook.pk))


@pytest.mark.parametrize(
    ("typed", "sent"),
    [
        pytest.param({"basic_password": "two"}, "me:two", id="only the password"),
        pytest.param({"basic_auth": "you"}, "you:one", id="only the user name"),
        pytest.param({"description": "changed"}, "me:one", id="neither"),
    ],
)
def test_the_part_of_the_credentials_left_empty_is_sent_unchanged(
    amina: Customer, typed: dict[str, str], sent: str
) -> None:
    webhook = make_webhook(amina.user, "file.deleted", basic_auth=("me", "one"))

    amina.post("webhook-settings", webhook.pk, **settings_of(webhook, **typed))
    with Webhooks() as webhooks:
        emit("file.deleted", {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}, owner=amina.user)
        (request,) = webhooks.deliver()

    assert b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode() == sent


def test_schemes_and_policies_have_labels_in_words(amina: Customer) -> None:
    Webhook.objects.filter(pk=amina.webhook.pk).update(signatures=["native", "standard", "gone"])

    settings_page = text(amina.get("webhook-settings", amina.webhook.pk))
    page = text(amina.get("webhook", amina.webhook.pk))
    code = text(amina.get("webhook-code", amina.webhook.pk))

    assert "Default (Quick retries)" in settings_page
    assert "Quick retries: 4 attempts: after 1, 5 and 30 seconds." in settings_page
    assert "Signature of this service: X-Webhook-Signature: HMAC-SHA256" in settings_page
    assert "specification:" not in settings_page
    assert "Signature of this service, Standard Webhooks with the secret, gone" in page
    assert "Standard Webhooks with the secret" in code
