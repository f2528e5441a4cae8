"""The actor and the origin of an action: console, API, command, project code or the service itself."""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.api.conftest import client_of
from webhooks_app.maintenance.jobs import Job, run_due
from webhooks_app.models import ApiKey, AuditEntry, MaintenanceJob
from webhooks_app.models.audit import Actor, Via, acting

from .conftest import written

pytestmark = pytest.mark.django_db


def who():
    (entry,) = written()
    return entry.via, entry.actor, entry.actor_name


def test_project_code_is_anonymous_by_default(webhook):
    webhook.pause()

    assert who() == ("code", None, "")


def test_project_code_can_name_its_actor(webhook, alice):
    with acting(Actor(account=alice)):
        webhook.pause()

    assert who() == ("code", alice, "alice")


def test_an_action_through_the_api_has_the_key_and_its_owner(webhook, alice):
    api = client_of(alice)
    AuditEntry.objects.all().delete()

    assert api.call("POST", f"/v1/webhooks/{webhook.pk}/pause").status_code == 200

    assert who() == ("api", alice, f"whk_{ApiKey.objects.get().prefix}")


def test_an_action_in_the_console_has_the_user(webhook):
    root = get_user_model().objects.create_superuser("root")
    client = Client()
    client.force_login(root)

    client.post(reverse("admin:webhooks_app_webhook_act", args=(webhook.pk, "pause")), {"confirmed": "yes"})

    assert who() == ("console", root, "root")


def test_an_action_by_a_command_has_the_system_user(webhook, monkeypatch):
    monkeypatch.setenv("LOGNAME", "operator")

    call_command("pause_webhook", webhook.pk)

    assert who() == ("command", None, "operator")


def test_a_command_works_without_a_system_user_name(webhook, monkeypatch):
    def fail():
        raise OSError("no name")

    monkeypatch.setattr("webhooks_app.management.base.getpass.getuser", fail)

    call_command("pause_webhook", webhook.pk)

    assert who() == ("command", None, "")


def test_actions_of_jobs_are_attributed_to_the_service(webhook, alice):
    def disable(using, now, facts):
        webhook.disable("It failed for five days.")

    MaintenanceJob.objects.ensure(["judge"])
    with acting(Actor(account=alice)):
        run_due("default", timezone.now, [Job(name="judge", every_seconds=5, run=disable)])

    assert who() == ("system", None, "")


@pytest.mark.parametrize(
    "verdict", [lambda webhook: webhook.activate(), lambda webhook: webhook.fail("No.")], ids=["passed", "failed"]
)
def test_the_result_of_a_handshake_is_attributed_to_the_service(webhook, alice, verdict):
    with acting(Actor(account=alice)):
        verdict(webhook)

    assert who() == ("system", None, "")


@pytest.mark.django_db(transaction=True)
def test_the_actor_is_limited_to_its_thread(webhook, alice):
    def pause():
        try:
            webhook.pause()
        finally:
            connections.close_all()

    with acting(Actor(account=alice)):
        thread = threading.Thread(target=pause)
        thread.start()
        thread.join(60)

    assert who() == ("code", None, "")


def test_the_actor_ends_with_the_request(webhook, alice):
    api = client_of(alice)
    AuditEntry.objects.all().delete()
    api.call("GET", f"/v1/webhooks/{webhook.pk}")
    api.call("POST", f"/v1/webhooks/{'wh_' + '7' * 32}/pause")

    webhook.pause()

    assert who() == ("code", None, "")


def test_actors_can_be_nested_and_end_after_an_error(webhook, alice):
    def act():
        with acting(Actor(account=alice)):
            with acting(Actor(via=Via.SYSTEM)):
                webhook.pause()
            webhook.resume()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        act()
    webhook.pause()

    assert [entry.via for entry in written()] == ["system", "code", "code"]
    assert [entry.actor for entry in written()] == [None, alice, None]
