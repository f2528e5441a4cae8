"""Permission, limit, state and audit entry of every use case."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied

from webhooks_app.exceptions import RateLimitedError, WebhookStateError
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Webhook
from webhooks_app.operations import rights
from webhooks_app.operations.actors import PROJECT, ApiCaller, Member, Operator, StaffMember
from webhooks_app.owners import Access

from .use_cases import USE_CASES

pytestmark = pytest.mark.django_db


def each(cases):
    return pytest.mark.parametrize("case", cases.values(), ids=cases)


every_use_case = each(USE_CASES)
each_with_a_scope = each({name: case for name, case in USE_CASES.items() if case.right.scope})
each_with_a_limit = each({name: case for name, case in USE_CASES.items() if case.limit})
each_with_a_state = each({name: case for name, case in USE_CASES.items() if case.spoil})


@pytest.fixture
def bob(django_user_model):
    return django_user_model.objects.create_user("bob", is_staff=True)


def granted(user, *names):
    """Return the user with exactly these permissions."""
    codenames = [name.removeprefix("webhooks_app.") for name in names]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return type(user).objects.get(pk=user.pk)


def rows():
    """Return the rows that an operation could change."""
    return (list(Webhook.objects.values()), list(Delivery.objects.values("pk", "state")), AuditEntry.objects.count())


def assert_denied(case, subject, actor):
    before = rows()

    with pytest.raises(PermissionDenied):
        case.call(subject, actor)

    assert rows() == before


@every_use_case
def test_a_key_needs_the_scope(webhook, alice, case):
    others = {scope for scope in ApiKey.Scope.values if scope != case.right.scope}

    assert_denied(case, case.make(webhook), ApiCaller(account=alice, owner=alice, scopes=others))


@every_use_case
def test_a_key_cannot_access_the_webhook_of_another_account(webhook, bob, case):
    assert_denied(case, case.make(webhook), ApiCaller(account=bob, owner=bob))


@every_use_case
def test_a_member_of_staff_needs_the_permission(webhook, alice, case):
    assert_denied(case, case.make(webhook), StaffMember(account=granted(alice, "webhooks_app.view_webhook")))


@every_use_case
def test_a_permission_does_not_cover_webhooks_of_other_accounts(webhook, bob, case):
    assert_denied(case, case.make(webhook), StaffMember(account=granted(bob, case.right.permission)))


@every_use_case
def test_the_permission_to_manage_all_covers_webhooks_of_other_accounts(webhook, bob, case):
    user = granted(bob, case.right.permission, "webhooks_app.manage_all_webhooks")

    case.call(case.make(webhook), StaffMember(account=user))

    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.via, entry.actor) == (case.action, "console", bob)


def test_keys_hold_no_right_that_the_api_does_not_offer(alice):
    key = ApiCaller(account=alice, owner=alice)

    assert not key.holds(rights.HANDLE_PROBLEM)
    assert rights.HANDLE_PROBLEM not in rights.rights_of("webhooks:write")


@each_with_a_scope
def test_the_scope_suffices_for_the_owners_key_and_its_use_is_audited(webhook, alice, case):
    subject = case.make(webhook)
    AuditEntry.objects.all().delete()

    case.call(subject, ApiCaller(account=alice, owner=alice, name="whk_0123456789ab", scopes=[case.right.scope]))

    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.via, entry.actor) == (case.action, "api", alice)
    assert (entry.actor_name, entry.owner) == ("whk_0123456789ab", alice)


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@pytest.mark.parametrize("actor", [PROJECT, Operator(name="deploy")], ids=["code", "command"])
@every_use_case
def test_commands_and_code_access_every_webhook_and_are_audited(webhook, case, actor):
    subject = case.make(webhook)
    AuditEntry.objects.all().delete()

    case.call(subject, actor)

    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.via, entry.actor_name) == (case.action, actor.via, actor.name)


@pytest.mark.parametrize("actor", ["key", "staff", "command"])
@each_with_a_limit
def test_a_refusal_by_a_limit_changes_nothing(webhook, alice, settings, case, actor):
    setattr(settings, f"WEBHOOKS_{case.limit}_RATE", "1/min")
    user = granted(alice, case.right.permission)
    actor = {"key": ApiCaller(account=alice, owner=alice), "staff": StaffMember(account=user), "command": Operator()}[
        actor
    ]
    case.call(case.make(webhook), actor)
    subject = case.make(Webhook.objects.get(pk=webhook.pk))
    before = rows()

    with pytest.raises(RateLimitedError):
        case.call(subject, actor)

    assert rows() == before


@each_with_a_limit
def test_the_projects_code_is_not_counted(webhook, settings, case):
    setattr(settings, f"WEBHOOKS_{case.limit}_RATE", "1/min")

    for _ in range(3):
        case.call(case.make(Webhook.objects.get(pk=webhook.pk)), PROJECT)


@each_with_a_state
def test_a_refusal_by_the_state_changes_nothing(webhook, case):
    subject = case.make(webhook)
    case.spoil(type(subject).objects.get(pk=subject.pk))
    subject = type(subject).objects.get(pk=subject.pk)
    before = rows()

    with pytest.raises(WebhookStateError):
        case.call(subject, Operator())

    assert rows() == before


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@each_with_a_state
def test_the_state_is_checked_on_the_locked_row(webhook, case):
    """Another transaction changes the row after it was loaded, and before it is locked."""
    subject = case.make(webhook)
    case.spoil(type(subject).objects.get(pk=subject.pk))
    before = rows()

    with pytest.raises(WebhookStateError):
        case.call(subject, Operator())

    assert rows() == before


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@each_with_a_state
def test_the_owner_is_checked_on_the_locked_row(webhook, alice, bob, case):
    subject = case.make(webhook)
    Webhook.objects.update(owner=bob)

    assert_denied(case, subject, Member(account=alice, owner=alice, access=Access.ALL))

    case.call(subject, Member(account=bob, owner=bob, access=Access.ALL))
    assert AuditEntry.objects.latest("id").owner == bob


@pytest.mark.parametrize("name", [name for name, case in USE_CASES.items() if case.limit and case.spoil])
def test_a_refusal_by_the_state_is_not_counted(webhook, alice, settings, name):
    case, actor = USE_CASES[name], Operator()
    setattr(settings, f"WEBHOOKS_{case.limit}_RATE", "1/min")
    spoilt = case.make(webhook)
    case.spoil(spoilt)
    for _ in range(3):
        with pytest.raises(WebhookStateError):
            case.call(type(spoilt).objects.get(pk=spoilt.pk), actor)
    Webhook.objects.update(status="active", deleted_at=None, paused_at=None)

    case.call(case.make(Webhook.objects.get(pk=webhook.pk)), actor)
