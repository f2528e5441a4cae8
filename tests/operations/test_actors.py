"""Rights, reach and limits of the actors, and an actor that an edge adds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from django.core.exceptions import PermissionDenied

from webhooks_app.models import AuditEntry
from webhooks_app.models.api_key import owner_scopes
from webhooks_app.operations import lifecycle
from webhooks_app.operations.actors import PROJECT, ApiCaller, BaseActor, Operator, StaffMember

from ..support.rows import make_webhook

pytestmark = pytest.mark.django_db


def test_the_platforms_webhook_is_not_within_reach_of_an_account(alice):
    assert not ApiCaller(account=alice, owner=alice).reaches(None)
    assert not StaffMember(account=alice).reaches(None)


def test_scopes_narrow_a_key_and_nothing_else(alice):
    by_key = ApiCaller(account=alice, owner=alice, scopes=["events:read"])
    by_session = ApiCaller(account=alice, owner=alice)

    scopes = owner_scopes()
    assert [scope for scope in scopes if by_key.has_scope(scope)] == ["events:read"]
    assert [scope for scope in scopes if by_session.has_scope(scope)] == scopes
    assert not by_session.has_scope("events:emit")


def test_the_rate_limits_apply_to_everyone_but_the_code_of_the_project(alice):
    actors = (ApiCaller(account=alice, owner=alice), StaffMember(account=alice), Operator(), PROJECT)

    assert [actor.is_throttled for actor in actors] == [True, True, True, False]


def test_staff_exceed_ceilings_if_they_manage_all(alice, django_user_model):
    root = django_user_model.objects.create_superuser("root")

    assert not StaffMember(account=alice).may_exceed_ceilings
    assert StaffMember(account=root).may_exceed_ceilings


@dataclass(frozen=True, kw_only=True, slots=True)
class Customer(BaseActor):
    """The actor of an edge that is not ours."""

    via: str = "portal"

    def holds(self, right):
        return right.scope != ""

    def reaches(self, owner_id):
        return owner_id == self.account.pk


def test_an_edge_of_its_own_brings_its_own_actor(webhook, alice):
    platforms = make_webhook(None)

    lifecycle.pause(webhook, actor=Customer(account=alice))
    with pytest.raises(PermissionDenied):
        lifecycle.pause(platforms, actor=Customer(account=alice))

    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.via, entry.actor) == ("webhook.paused", "portal", alice)
