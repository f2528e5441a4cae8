"""Audit entries have the old and the new values, but no secrets."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.support.rows import URL, emit_one, end_deliveries, make_webhook, plan_replay
from webhooks_app import send_test_event
from webhooks_app.exceptions import AlreadyInStateError, WebhookStateError
from webhooks_app.maintenance import retention
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Webhook
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.api_keys import change_key, delete_key, revoke_key
from webhooks_app.operations.lifecycle import enable, start_verification
from webhooks_app.operations.registration import register_webhook, update_webhook
from webhooks_app.protocol.ids import first_id_at

from .conftest import written

pytestmark = pytest.mark.django_db

SECRET = "a secret of the tests, long enough"


def failed(webhook):
    Webhook.objects.filter(pk=webhook.pk).update(status="failed")
    return webhook


def disabled(webhook):
    webhook.disable("Too slow.")
    AuditEntry.objects.all().delete()
    return webhook


def paused(webhook):
    webhook.pause()
    AuditEntry.objects.all().delete()
    return webhook


def change(webhook, **fields):
    update_webhook(webhook, actor=PROJECT, **fields)


VERBS = {
    "url": (
        lambda webhook: change(webhook, url=f"{URL}2"),
        ("webhook.changed", {"pending_url": ["", f"{URL}2"]}),
    ),
    "event types": (
        lambda webhook: change(webhook, event_types=["file.deleted"]),
        ("webhook.changed", {"event_types": [["ppt.generation.failed"], ["file.deleted"]]}),
    ),
    "limits and words": (
        lambda webhook: change(webhook, description="ours", rate_limit=2.5, retry_notices=False),
        ("webhook.changed", {"description": ["", "ours"], "rate_limit": [None, 2.5], "retry_notices": [True, False]}),
    ),
    "disable": (
        lambda webhook: webhook.disable("Too slow."),
        ("webhook.disabled", {"status": ["active", "disabled"]}),
    ),
    "enable": (
        lambda webhook: enable(disabled(webhook), actor=PROJECT),
        ("webhook.enabled", {"status": ["disabled", "pending"]}),
    ),
    "verify": (
        lambda webhook: start_verification(failed(webhook), actor=PROJECT),
        ("webhook.verification_started", {"status": ["failed", "pending"]}),
    ),
    "verify once more": (
        lambda webhook: (
            start_verification(failed(webhook), actor=PROJECT),
            AuditEntry.objects.all().delete(),
            start_verification(webhook, actor=PROJECT),
        ),
        ("webhook.verification_started", {}),
    ),
    "passed": (lambda webhook: webhook.activate(), ("webhook.verified", {})),
    "failed": (lambda webhook: webhook.fail("No."), ("webhook.verification_failed", {"status": ["active", "failed"]})),
    "rotate without overlap": (
        lambda webhook: webhook.rotate_secret(SECRET, overlap=timedelta(0)),
        ("webhook.secret_rotated", {}),
    ),
}


@pytest.mark.parametrize(("verb", "expected"), VERBS.values(), ids=VERBS)
def test_an_action_creates_one_entry(webhook, verb, expected):
    verb(webhook)

    (entry,) = written()
    assert (entry.action, entry.changes) == expected
    assert (entry.subject, entry.owner) == (webhook.pk, webhook.owner)


def test_the_entry_of_a_registration_has_its_values(alice):
    webhook = register_webhook(owner=alice, url=URL, event_types=["file.deleted"])

    (entry,) = written(webhook)
    assert entry.action == "webhook.created"
    assert entry.changes["url"] == [None, URL]
    assert entry.changes["event_types"] == [None, ["file.deleted"]]


def test_a_change_of_owner_is_audited_and_visible_to_the_new_owner(webhook, alice, django_user_model):
    bob = django_user_model.objects.create_user("bob")

    change(webhook, owner=bob)

    (entry,) = written()
    assert entry.changes == {"owner_id": [alice.pk, bob.pk]}
    assert entry.owner == bob


def test_the_entries_of_pausing_and_resuming_have_the_time(webhook):
    webhook.pause()
    webhook.resume()

    pause, resume = written()
    assert (pause.action, resume.action) == ("webhook.paused", "webhook.resumed")
    assert pause.changes["paused_at"] == resume.changes["paused_at"][::-1]


def test_disabling_ends_a_pause_in_the_same_entry_with_the_reason(webhook):
    paused(webhook).disable("Too slow.")

    (entry,) = written()
    assert set(entry.changes) == {"status", "paused_at"}
    assert entry.reason == "Too slow."


def test_the_entry_of_a_deletion_outlives_the_webhook_and_its_account(webhook, alice):
    webhook.soft_delete()
    webhook.delete()
    alice.delete()

    (entry,) = written()
    assert (entry.action, entry.owner) == ("webhook.deleted", None)
    assert "deleted_at" in entry.changes


def test_the_entry_of_a_test_event_has_its_type_and_delivery(webhook):
    delivery = send_test_event(webhook, "file.deleted")

    (entry,) = written(webhook)
    assert entry.action == "webhook.tested"
    assert entry.changes == {"event_type": [None, "file.deleted"], "delivery": [None, delivery.pk]}


def test_a_redelivery_is_audited_for_the_original_delivery(webhook, alice):
    emit_one(alice)
    end_deliveries(state="given_up")
    delivery = Delivery.objects.get()

    again = delivery.redeliver(alice)

    (entry,) = written(delivery)
    assert (entry.action, entry.owner) == ("delivery.redelivered", alice)
    assert entry.changes == {"redelivery": [None, again.pk]}


def test_all_actions_on_a_replay_are_audited(webhook, alice):
    Webhook.objects.update(created_at=timezone.now() - timedelta(days=1))
    webhook.refresh_from_db()
    emit_one(alice).deliveries.all().delete()
    replay = plan_replay(webhook)
    replay.start()
    replay.pause()
    replay.resume()
    replay.cancel()

    entries = written(replay)
    verbs = ("planned", "started", "paused", "resumed", "cancelled")
    assert [entry.action for entry in entries] == [f"replay.{verb}" for verb in verbs]
    assert {entry.owner for entry in entries} == {alice}
    assert entries[0].changes["webhook_id"] == [None, webhook.pk]
    assert entries[-1].changes == {"state": ["running", "cancelled"]}


def test_all_actions_on_a_key_are_audited(alice):
    api_key, _ = ApiKey.objects.make(owner=alice, name="ci")
    api_key.name = "build"
    change_key(api_key, actor=PROJECT)
    change_key(api_key, actor=PROJECT)
    revoke_key(api_key, actor=PROJECT)
    with pytest.raises(AlreadyInStateError):
        revoke_key(api_key, actor=PROJECT)
    api_key_id = api_key.pk
    delete_key(api_key, actor=PROJECT)

    entries = list(AuditEntry.objects.filter(subject=api_key_id).order_by("id"))
    actions = ["api_key.created", "api_key.changed", "api_key.revoked", "api_key.deleted"]
    assert [entry.action for entry in entries] == actions
    assert entries[1].changes == {"name": ["ci", "build"]}


def test_entries_contain_no_secrets(alice):
    webhook = register_webhook(owner=alice, url=URL, event_types=["file.deleted"], secret=SECRET)
    first = webhook.secret
    second = webhook.rotate_secret()
    webhook.revoke_previous_secret()
    api_key, key = ApiKey.objects.make(owner=alice)

    everything = json.dumps(list(AuditEntry.objects.values("changes", "reason", "actor_name")))
    assert AuditEntry.objects.count() == 4
    for secret in (first, second, key, api_key.digest, webhook.current_key("native").encrypted_key):
        assert secret not in everything


@pytest.mark.parametrize(
    "verb",
    [
        partial(update_webhook, actor=PROJECT),
        lambda webhook: webhook.revoke_previous_secret(),
        lambda webhook: webhook.rotate_secret(webhook.secret),
    ],
    ids=["saved unchanged", "no old secret", "the same secret"],
)
def test_an_action_without_effect_is_not_audited(webhook, verb):
    verb(webhook)

    assert written() == []


def test_refused_and_rolled_back_actions_are_not_audited(webhook):
    with pytest.raises(WebhookStateError):
        lifecycle.resume(webhook, actor=PROJECT)
    with transaction.atomic():
        webhook.pause()
        transaction.set_rollback(True)

    assert written() == []


def test_emitting_is_not_audited(webhook, alice):
    with CaptureQueriesContext(connection) as queries:
        emit_one(alice)

    assert not [query for query in queries if "auditentry" in query["sql"]]


def test_old_entries_are_pruned(webhook, settings):
    webhook.pause()
    webhook.resume()
    old, young = written()
    days_ago = first_id_at("aud", timezone.now() - timedelta(days=8))
    AuditEntry.objects.filter(pk=old.pk).update(id=days_ago[:-1] + "1")

    assert retention.prune().audit_entries == 0
    settings.WEBHOOKS_AUDIT_RETENTION_DAYS = 7
    assert retention.prune(is_dry_run=True).audit_entries == 1
    assert retention.prune().audit_entries == 1
    assert written() == [young]


def test_an_outdated_instance_rotates_the_saved_secret(alice):
    webhook = make_webhook(alice)
    behind = type(webhook).objects.get(pk=webhook.pk)
    webhook.rotate_secret(SECRET)

    assert behind.rotate_secret(SECRET, overlap=timedelta(0)) == SECRET
    webhook.refresh_from_db()
    assert webhook.secret == SECRET
