"""Staff who are administrators of one organization, and viewers or operators of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.urls import reverse

from tests.support.rows import EVENT_TYPE, URL, emit_one, make_webhook
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Event, QueueEntry, Replay, SigningKey, Webhook
from webhooks_app.operations import lifecycle, replays
from webhooks_app.operations.actors import PROJECT, StaffMember
from webhooks_app.operations.sending import redeliver, send_test_event

from .roles import OPERATORS, VIEWERS

pytestmark = pytest.mark.django_db

ACTING = [Webhook, Delivery, Replay, ApiKey]
READING = {"try_filter"}
"""Actions that change nothing."""
OPERATORS_OF_GLOBEX = f"{OPERATORS} of Globex"
OF_SECRETS = {"rotate_secret", "activate_secret", "withdraw_secret", "revoke_previous_secret"}
OF_OPERATORS = {"send_test", "pause", "disable", "replay_missed", "link_to_pages"}
"""Buttons of an active webhook."""


@pytest.fixture
def sessions(settings: Any) -> None:
    settings.WEBHOOKS_API_AUTHENTICATION = ["rest_framework.authentication.SessionAuthentication"]


@dataclass
class Organized:
    """The rows of an organization."""

    webhook: Webhook
    event: Event
    delivery: Delivery
    replay: Replay
    key: ApiKey
    secret: str

    def of(self, model: type[Any]) -> Any:
        return {Webhook: self.webhook, Delivery: self.delivery, Replay: self.replay, ApiKey: self.key}[model]


def rows_of(owner: Any) -> Organized:
    webhook = make_webhook(owner)
    event = emit_one(owner)
    delivery = event.deliveries.get(webhook=webhook)
    key, _ = ApiKey.objects.make(owner=owner, name=f"key of {owner.name}")
    return Organized(webhook, event, delivery, replays.plan(webhook, actor=PROJECT), key, webhook.secret)


def state() -> list[Any]:
    """Return every row that an action could change."""
    models = (Webhook, SigningKey, Delivery, Event, QueueEntry, Replay, ApiKey, AuditEntry)
    return [sorted(map(repr, model._default_manager.values())) for model in models]


@pytest.fixture
def theirs(globex: Any, settings: Any) -> Organized:
    settings.WEBHOOKS_OWNERS = "tests.owners.organizations.roles.RoleOwners"
    return rows_of(globex)


@pytest.fixture
def member(acme: Any, globex: Any, django_user_model: Any) -> Callable[[str], Any]:
    """Create a user with all permissions, an administrator of Acme with a role in Globex."""

    def member(role: str) -> Any:
        user = django_user_model.objects.create_user(f"{role}@example.com", is_staff=True)
        user.organizations.set([acme, globex])
        user.groups.add(Group.objects.create(name=f"{role} of Globex"))
        own = Permission.objects.filter(content_type__app_label="webhooks_app").exclude(codename="manage_all_webhooks")
        user.user_permissions.set(own)
        return user

    return member


@pytest.fixture
def login(member: Callable[[str], Any]) -> Callable[[str], Client]:
    def login(role: str) -> Client:
        client = Client()
        client.force_login(member(role))
        return client

    return login


def url(model: type[Any], page: str, *args: str) -> str:
    return reverse(f"admin:webhooks_app_{model._meta.model_name}_{page}", args=args)


def buttons(client: Client, item: Any) -> set[str]:
    """Return the actions with a button on the page of a row."""
    page = client.get(url(type(item), "change", item.pk))
    assert page.status_code == 200
    text = page.content.decode()
    if isinstance(item, Replay):
        text += client.get(url(Replay, "live", item.pk)).content.decode()
    names = type(admin.site._registry[type(item)]).page_actions
    return {name for name in names if f"/act/{name}/" in text}


def actions_of(model: type[Any]) -> list[str]:
    admin_class: Any = type(admin.site._registry[model])
    return sorted({*admin_class.actions, *admin_class.page_actions} - READING)


ACTIONS = [pytest.param(model, name, id=f"{model.__name__}-{name}") for model in ACTING for name in actions_of(model)]


@pytest.mark.parametrize("model", ACTING)
def test_a_viewer_sees_no_button_for_a_change(login: Callable[[str], Client], theirs: Organized, model: Any) -> None:
    client = login(VIEWERS)

    text = client.get(url(model, "change", theirs.of(model).pk)).content.decode()

    assert buttons(client, theirs.of(model)) <= READING
    assert 'name="_save"' not in text
    assert "deletelink" not in text


@pytest.mark.parametrize(("model", "name"), ACTIONS)
def test_a_viewer_runs_no_action_on_a_row(
    login: Callable[[str], Client], theirs: Organized, model: Any, name: str
) -> None:
    client, item = login(VIEWERS), theirs.of(model)
    before = state()

    for form in ({"confirmed": "yes"}, {}):
        on_page = client.post(url(model, "act", item.pk, name), form)
        in_list = {"action": name, "_selected_action": [item.pk], "index": "0", "post": "yes", **form}
        answer = client.post(url(model, "changelist"), in_list, follow=True)
        assert on_page.status_code == 403
        assert "You may view the webhooks of this account, but not change them." in answer.content.decode()

    assert state() == before


@pytest.mark.parametrize("name", ["pause", "disable", "rotate_secret", "send_test"])
def test_the_page_of_a_refused_action_has_the_reason(
    login: Callable[[str], Client], theirs: Organized, name: str
) -> None:
    answer = login(VIEWERS).get(url(Webhook, "act", theirs.webhook.pk, name))

    assert answer.status_code == 403
    assert "You may view the webhooks of this account, but not change them." in answer.content.decode()


def test_an_action_on_rows_of_both_changes_neither(
    login: Callable[[str], Client], theirs: Organized, acme: Any
) -> None:
    own = rows_of(acme)
    before = state()

    ids = [own.webhook.pk, theirs.webhook.pk]
    form = {"action": "delete_selected", "_selected_action": ids, "post": "yes"}
    login(VIEWERS).post(url(Webhook, "changelist"), form)

    assert state() == before


@pytest.mark.parametrize("model", [Webhook, ApiKey])
@pytest.mark.parametrize("page", ["change", "delete"])
def test_a_viewer_changes_nothing_by_a_form(
    login: Callable[[str], Client], theirs: Organized, model: Any, page: str
) -> None:
    before = state()
    form = {"url": URL + "/changed", "event_types": [EVENT_TYPE], "name": "changed", "scopes": ["events:read"]}

    answer = login(VIEWERS).post(url(model, page, theirs.of(model).pk), {**form, "post": "yes"})

    assert answer.status_code == 403
    assert "but not change them" in answer.content.decode()
    assert state() == before


@pytest.mark.parametrize("role", [VIEWERS, OPERATORS])
@pytest.mark.parametrize("model", [Webhook, ApiKey])
def test_what_has_a_secret_is_created_only_for_owners_whose_secrets_one_may_see(
    login: Callable[[str], Client], theirs: Organized, globex: Any, acme: Any, role: str, model: Any
) -> None:
    client = login(role)
    form = {"url": URL, "event_types": [EVENT_TYPE], "name": "ci", "scopes": ["events:read"], "owner": str(globex.pk)}

    client.post(url(model, "add"), form)

    assert 'name="owner"' not in client.get(url(model, "add")).content.decode()
    assert model.objects.filter(owner=globex).count() == 1
    assert model.objects.filter(owner=acme).count() == 1


def test_a_viewer_plans_no_replay(login: Callable[[str], Client], theirs: Organized) -> None:
    before = state()
    form = {"webhook": theirs.webhook.pk, "states": ["given_up", "missed"]}

    answer = login(VIEWERS).post(url(Replay, "add"), form)

    assert answer.status_code == 403
    assert "but not change them" in answer.content.decode()
    assert state() == before


@pytest.mark.parametrize("role", [VIEWERS, OPERATORS])
def test_no_page_shows_a_secret_to_a_member_without_the_right(
    login: Callable[[str], Client], theirs: Organized, role: str
) -> None:
    client = login(role)
    secrets = (theirs.secret, theirs.key.digest)

    pages = [client.get(url(model, "change", theirs.of(model).pk)) for model in ACTING]
    pages += [client.get(url(model, "history", theirs.of(model).pk)) for model in ACTING]
    pages += [client.get(url(model, "changelist")) for model in (*ACTING, AuditEntry, Event)]

    assert {page.status_code for page in pages} == {200}
    assert not any(secret in page.content.decode() for page in pages for secret in secrets)


def test_an_operator_manages_webhooks_but_not_their_secrets(login: Callable[[str], Client], theirs: Organized) -> None:
    client = login(OPERATORS)

    assert buttons(client, theirs.webhook) - READING == OF_OPERATORS
    client.post(url(Webhook, "act", theirs.webhook.pk, "pause"), {"confirmed": "yes"})

    theirs.webhook.refresh_from_db()
    assert theirs.webhook.paused_at is not None


@pytest.mark.parametrize("name", sorted(OF_SECRETS))
def test_an_operator_replaces_no_secret(login: Callable[[str], Client], theirs: Organized, name: str) -> None:
    theirs.webhook.rotate_secret()
    before = state()

    form = {"confirmed": "yes", "overlap_hours": "0"}
    answer = login(OPERATORS).post(url(Webhook, "act", theirs.webhook.pk, name), form)

    assert answer.status_code == 403
    assert "You may not create or replace secrets of this account." in answer.content.decode()
    assert state() == before


def test_a_secret_is_not_shown_after_the_right_ended(
    login: Callable[[str], Client], theirs: Organized, acme: Any, member: Any, django_user_model: Any
) -> None:
    client, own = login(VIEWERS), rows_of(acme)
    form = {"confirmed": "yes", "overlap_hours": "0"}
    shown = client.post(url(Webhook, "act", own.webhook.pk, "rotate_secret"), form)["Location"]

    django_user_model.objects.get().groups.add(Group.objects.create(name="operators of Acme"))
    answer = client.get(shown)

    assert answer.status_code == 403
    assert Webhook.objects.get(pk=own.webhook.pk).secret not in answer.content.decode()


def test_the_administrator_has_every_button_for_the_own_organization(
    login: Callable[[str], Client], theirs: Organized, acme: Any
) -> None:
    own = rows_of(acme)

    assert buttons(login(VIEWERS), own.webhook) == {*OF_OPERATORS, "rotate_secret", *READING}


@pytest.mark.parametrize("name", ["pause", "rotate_secret"])
def test_an_action_on_a_row_of_an_unrelated_organization_is_not_found(
    login: Callable[[str], Client], theirs: Organized, globex: Any, name: str
) -> None:
    client = login(VIEWERS)
    globex.members.clear()

    assert client.post(url(Webhook, "act", theirs.webhook.pk, name), {"confirmed": "yes"}).status_code == 404


OPERATIONS: dict[str, Callable[[Organized, StaffMember], object]] = {
    "pause": lambda rows, actor: lifecycle.pause(rows.webhook, actor=actor),
    "test": lambda rows, actor: send_test_event(rows.webhook, EVENT_TYPE, actor=actor),
    "redeliver": lambda rows, actor: redeliver(rows.delivery, actor=actor),
    "plan": lambda rows, actor: replays.plan(rows.webhook, actor=actor),
    "start": lambda rows, actor: replays.start(rows.replay, actor=actor),
}


@pytest.mark.parametrize("call", OPERATIONS.values(), ids=OPERATIONS)
def test_an_operation_asks_the_owner_that_is_saved(
    member: Callable[[str], Any], theirs: Organized, acme: Any, globex: Any, call: Any
) -> None:
    own = rows_of(acme)
    for row in (own.delivery, own.replay):
        _ = row.webhook.owner
    Webhook.objects.filter(pk=own.webhook.pk).update(owner=globex)
    before = state()

    with pytest.raises(PermissionDenied, match="but not change them"):
        call(own, StaffMember(account=member(VIEWERS)))

    assert state() == before


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize(("role", "paused"), [(VIEWERS, 403), (OPERATORS, 200)])
def test_a_member_who_is_logged_in_has_the_same_rights_over_the_api(
    login: Callable[[str], Client], theirs: Organized, acme: Any, role: str, paused: int
) -> None:
    client = login(role)
    acme.members.clear()  # so that Globex is the only one
    body: Any = {"content_type": "application/json"}

    listed = client.get("/v1/webhooks")
    created = client.post("/v1/webhooks", {"url": URL, "events": [EVENT_TYPE]}, **body)
    rotated = client.post(f"/v1/webhooks/{theirs.webhook.pk}/rotate-secret", {}, **body)

    assert [each["id"] for each in listed.json()["results"]] == [theirs.webhook.pk]
    assert (created.status_code, rotated.status_code) == (403, 403)
    assert created.json()["detail"].startswith("You may")
    assert client.post(f"/v1/webhooks/{theirs.webhook.pk}/pause", **body).status_code == paused
    assert Webhook.objects.count() == 1


@pytest.mark.usefixtures("sessions")
def test_a_stored_answer_with_a_secret_is_not_repeated_after_the_right_ended(
    login: Callable[[str], Client], theirs: Organized, acme: Any, django_user_model: Any
) -> None:
    client, body = login("administrators"), {"url": URL, "events": [EVENT_TYPE]}
    acme.members.clear()  # so that Globex is the only one
    options: Any = {"content_type": "application/json", "headers": {"Idempotency-Key": "k"}}
    first, repeated = (client.post("/v1/webhooks", body, **options) for _ in range(2))

    django_user_model.objects.get().groups.add(Group.objects.create(name=OPERATORS_OF_GLOBEX))
    refused = client.post("/v1/webhooks", body, **options)

    assert (first.status_code, first.content) == (201, repeated.content)
    assert refused.status_code == 403
    assert first.json()["secret"] not in refused.content.decode()


def test_an_operator_gives_no_key_the_scope_that_rotates_secrets(
    login: Callable[[str], Client], theirs: Organized
) -> None:
    client, scopes = login(OPERATORS), ["webhooks:read", "webhooks:test"]
    ApiKey.objects.filter(pk=theirs.key.pk).update(scopes=["webhooks:read"])

    for chosen in (["webhooks:read", "webhooks:write"], scopes):
        client.post(url(ApiKey, "change", theirs.key.pk), {"name": "ci", "scopes": chosen})

    theirs.key.refresh_from_db()
    assert theirs.key.scopes == scopes
