"""Rights, accessible rows and limits of actors, and a custom actor."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.core.exceptions import PermissionDenied

from webhooks_app.models import AuditEntry
from webhooks_app.models.api_key import owner_scopes
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT, ApiCaller, BaseActor, Operator, StaffMember
from webhooks_app.owners import Access

from ..support.rows import make_webhook

pytestmark = pytest.mark.django_db


def test_an_account_cannot_access_the_platforms_webhooks(alice):
    assert not ApiCaller(account=alice, owner=alice).access_to(None)
    assert not StaffMember(account=alice).access_to(None)


def test_scopes_limit_only_keys(alice):
    by_key = ApiCaller(account=alice, owner=alice, scopes=["events:read"])
    by_session = ApiCaller(account=alice, owner=alice)

    scopes = owner_scopes()
    assert [scope for scope in scopes if by_key.has_scope(scope)] == ["events:read"]
    assert [scope for scope in scopes if by_session.has_scope(scope)] == scopes
    assert not by_session.has_scope("events:emit")


def test_rate_limits_apply_to_all_but_the_projects_code(alice):
    actors = (ApiCaller(account=alice, owner=alice), StaffMember(account=alice), Operator(), PROJECT)

    assert [actor.is_throttled for actor in actors] == [True, True, True, False]


def test_staff_who_manage_all_webhooks_may_exceed_ceilings(alice, django_user_model):
    root = django_user_model.objects.create_superuser("root")

    assert not StaffMember(account=alice).may_exceed_ceilings
    assert StaffMember(account=root).may_exceed_ceilings


@dataclass(frozen=True, kw_only=True, slots=True)
class Customer(BaseActor):
    """The actor of a host's own interface."""

    via: str = "portal"

    def holds(self, right):
        return right.scope != ""

    def access_to(self, owner_id):
        return Access.READ | Access.MANAGE if owner_id == self.account.pk else Access(0)


def test_a_custom_actor_can_call_operations(webhook, alice):
    platforms = make_webhook(None)

    lifecycle.pause(webhook, actor=Customer(account=alice))
    with pytest.raises(PermissionDenied):
        lifecycle.pause(platforms, actor=Customer(account=alice))

    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.via, entry.actor) == ("webhook.paused", "portal", alice)
