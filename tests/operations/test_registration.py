"""Creating and changing webhooks: permissions, limits, and concurrent changes."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from webhooks_app import register_webhook
from webhooks_app.exceptions import RateLimitedError
from webhooks_app.models import AuditEntry, QueueLane, Webhook
from webhooks_app.operations.actors import PROJECT, ApiCaller, Operator, ProjectCode
from webhooks_app.operations.registration import update_webhook

from ..support.rows import EVENT_TYPE, URL, deliveries, make_webhook

pytestmark = pytest.mark.django_db


def register(alice, actor=PROJECT, **fields):
    return register_webhook(**{"owner": alice, "url": URL, "event_types": [EVENT_TYPE], "actor": actor, **fields})


def test_api_keys_cannot_register_webhooks_of_the_platform(alice):
    with pytest.raises(PermissionDenied):
        register(None, ApiCaller(account=alice, owner=alice))


def test_a_name_instead_of_an_owner_is_refused_as_such():
    with pytest.raises(ValidationError, match="of type str; pass an instance of"):
        register_webhook(owner="alice", url=URL, event_types=["invoice.paid"])


def test_an_owner_cannot_register_more_concurrent_requests_than_the_default(alice, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 4

    with pytest.raises(ValidationError, match="at most 4 concurrent requests"):
        register(alice, ApiCaller(account=alice, owner=alice), max_in_flight=5)
    assert register(alice, Operator(), max_in_flight=5).max_in_flight == 5


def test_an_invalid_registration_is_not_counted(alice, settings):
    settings.WEBHOOKS_PROBE_RATE = "1/min"
    actor = ApiCaller(account=alice, owner=alice)
    for fields in ({"url": "ftp://example.com"}, {"event_types": ["no.such_type"]}, {"max_in_flight": 10_000}):
        with pytest.raises(ValidationError):
            register(alice, actor, **fields)

    register(alice, actor)

    with pytest.raises(RateLimitedError):
        register(alice, actor)


def test_the_limit_of_webhooks_applies_to_commands_and_code_too(alice, settings):
    settings.WEBHOOKS_MAX_WEBHOOKS_PER_OWNER = 1
    register(alice)

    for actor in (PROJECT, Operator(), ApiCaller(account=alice, owner=alice)):
        with pytest.raises(ValidationError, match="limit of 1"):
            register(alice, actor)


def test_a_change_keeps_concurrent_changes_of_other_fields(webhook):
    older = Webhook.objects.get()
    update_webhook(webhook, description="mine", actor=PROJECT)

    update_webhook(older, rate_limit=2.5, actor=PROJECT)

    saved = Webhook.objects.get()
    assert (saved.description, saved.rate_limit) == ("mine", 2.5)
    assert older.description == "mine"


def test_a_change_of_an_unknown_field_is_refused(webhook):
    with pytest.raises(TypeError, match="status"):
        update_webhook(webhook, status="active", actor=PROJECT)


def test_an_invalid_change_is_not_saved_or_counted(webhook, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    actor = ApiCaller(account=alice, owner=alice)

    with pytest.raises(ValidationError):
        update_webhook(webhook, url="http://127.0.0.1:9000/new", event_types=[], actor=actor)
    assert Webhook.objects.get().url == URL

    update_webhook(webhook, url="http://127.0.0.1:9000/new", actor=actor)


def test_only_a_new_url_resets_the_pace_of_a_webhook(alice):
    webhook = make_webhook(alice, status="failed")
    QueueLane.objects.create(webhook=webhook, is_fast=False)

    update_webhook(webhook, description="new", actor=PROJECT)
    assert Webhook.objects.get().is_fast is False

    update_webhook(webhook, url=f"{URL}/new", actor=PROJECT)
    assert Webhook.objects.get().is_fast is None


def test_a_new_url_of_a_disabled_webhook_is_neither_verified_nor_counted(webhook, alice, settings):
    settings.WEBHOOKS_VERIFICATION_RATE = "1/min"
    webhook.disable("By hand.")

    for number in range(3):
        update_webhook(webhook, url=f"{URL}/{number}", actor=ApiCaller(account=alice, owner=alice))

    assert deliveries("verification") == []


def test_an_owner_cannot_move_a_webhook_to_another_account(webhook, alice, django_user_model):
    bob = django_user_model.objects.create_user("bob")

    with pytest.raises(PermissionDenied):
        update_webhook(webhook, owner=bob, actor=ApiCaller(account=alice, owner=alice))

    assert Webhook.objects.get().owner == alice


def test_an_owner_can_repeat_a_limit_raised_by_staff(alice, settings):
    settings.WEBHOOKS_MAX_IN_FLIGHT_PER_WEBHOOK = 4
    webhook = make_webhook(alice, max_in_flight=50)

    update_webhook(webhook, max_in_flight=50, description="busy", actor=ApiCaller(account=alice, owner=alice))

    assert Webhook.objects.get().description == "busy"


def test_the_projects_code_can_name_an_account(alice):
    webhook = register(alice, ProjectCode(account=alice))

    entry = AuditEntry.objects.about(webhook).get()
    assert (entry.via, entry.actor) == ("code", alice)


def test_a_webhook_whose_event_type_is_retired_can_be_changed(webhook):
    Webhook.objects.update(event_types=["gone.type"], filter={"gone_id": 1})
    webhook = Webhook.objects.get()

    update_webhook(webhook, description="changed", actor=PROJECT)

    webhook = Webhook.objects.get()
    assert (webhook.description, webhook.event_types) == ("changed", ["gone.type"])


def test_a_new_owner_must_see_the_event_types(webhook, bob):
    Webhook.objects.update(event_types=["gone.type"])

    with pytest.raises(ValidationError, match="Unknown event type"):
        update_webhook(Webhook.objects.get(), owner=bob, actor=PROJECT)


@pytest.mark.parametrize(
    "saved",
    [{"retry_policy": "lost"}, {"signatures": ["native", "gone"]}, {"url": "http://hooks.example.com:25/"}],
    ids=str,
)
def test_a_saved_value_that_is_no_longer_permitted_prevents_no_other_change(webhook, saved):
    update_webhook(webhook, headers={"X-Tenant": "acme"}, actor=PROJECT)
    Webhook.objects.update(**saved)

    update_webhook(webhook, description="new", actor=PROJECT)
    with pytest.raises(ValidationError):
        update_webhook(webhook, **{name: f"{value}x" for name, value in saved.items()}, actor=PROJECT)

    kept = Webhook.objects.get(description="new", **saved)
    assert list(kept.headers) == ["X-Tenant"]


def test_a_string_of_event_types_is_refused_as_no_list(alice):
    with pytest.raises(ValidationError, match="Give a list of event types") as caught:
        register_webhook(owner=alice, url=URL, event_types=EVENT_TYPE)

    assert list(caught.value.message_dict) == ["event_types"]
