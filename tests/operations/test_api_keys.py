"""Permissions and audit entries of operations on API keys."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied

from webhooks_app.models import ApiKey, AuditEntry
from webhooks_app.operations import rights
from webhooks_app.operations.actors import ApiCaller, Operator, StaffMember
from webhooks_app.operations.api_keys import change_key, create_key, delete_key, revoke_key

pytestmark = pytest.mark.django_db

OPERATIONS = {
    "create": (
        lambda key, actor: create_key(owner=key.owner, scopes=["events:read"], actor=actor),
        rights.CREATE_KEY,
        "api_key.created",
    ),
    "change": (lambda key, actor: change_key(renamed(key), actor=actor), rights.CHANGE_KEY, "api_key.changed"),
    "revoke": (lambda key, actor: revoke_key(key, actor=actor), rights.CHANGE_KEY, "api_key.revoked"),
    "delete": (lambda key, actor: delete_key(key, actor=actor), rights.DELETE_KEY, "api_key.deleted"),
}

every_operation = pytest.mark.parametrize(("call", "right", "action"), OPERATIONS.values(), ids=OPERATIONS)


def renamed(key):
    key.name = "another name"
    return key


@pytest.fixture
def key(alice):
    key, _ = ApiKey.objects.make(owner=alice)
    AuditEntry.objects.all().delete()
    return key


def staff(user, right, *names):
    codenames = [name.removeprefix("webhooks_app.") for name in (right.permission, *names)]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return StaffMember(account=user)


@every_operation
def test_api_keys_cannot_manage_keys(key, alice, call, right, action):
    with pytest.raises(PermissionDenied):
        call(key, ApiCaller(account=alice, owner=alice))

    assert not AuditEntry.objects.exists()


@every_operation
def test_staff_need_the_permission_and_can_manage_only_their_own_keys(
    key, alice, django_user_model, call, right, action
):
    bob = django_user_model.objects.create_user("bob")
    for actor in (StaffMember(account=alice), staff(bob, right)):
        with pytest.raises(PermissionDenied):
            call(key, actor)

    call(key, staff(django_user_model.objects.get(pk=alice.pk), right, rights.VIEW_EVENTS.permission))

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.via, entry.actor) == (action, "console", alice)


@every_operation
def test_a_command_manages_every_key_and_is_audited(key, call, right, action):
    call(key, Operator(name="deploy"))

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.via, entry.actor_name) == (action, "command", "deploy")
