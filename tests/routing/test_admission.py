"""Agreement of the two forms of the admission rule, on each database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.conftest import client_of
from tests.support.rows import EVENT_TYPE, URL, make_webhook
from webhooks_app.emission import Operational, emit, emit_operational
from webhooks_app.event_types import WEBHOOK_DISABLED, EventData, EventType, registry
from webhooks_app.models import Delivery, Event, Replay, Webhook
from webhooks_app.replays.planning import look
from webhooks_app.routing import Reason, RoutedEvent, admits, concerns, subscribed_to, webhooks_for
from webhooks_app.routing.report import decide

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
NAMES = ("a.b", "a.b.c", "x.a.b", "a.b_c", "a.bc", "aa.b", "a_b.c", "0.1")
OTHER_TEXT = ("A.B", 'x"a.b"x', "a.b\\", "a.b ", "á.b", "", "a", "a%b", "a.b,a.bc")
"""Values that no registration accepts, but that a row may contain."""


class Nothing(EventData):
    note: str = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    owner: str | None
    status: Webhook.Status
    event_types: list[str]
    is_later: bool
    deleted: str

    def webhook(self, owners: dict[str | None, Any]) -> Webhook:
        now = timezone.now()
        deleted_at = {"never": None, "before": now - HOUR, "after": now + HOUR}[self.deleted]
        return Webhook(
            owner=owners[self.owner],
            url=URL,
            event_types=list(self.event_types),
            status=self.status,
            created_at=now + HOUR / 2 if self.is_later else now - 2 * HOUR,
            deleted_at=deleted_at,
        )


OWNERS = st.sampled_from(["alice", "bob", None])
REGISTERED = st.builds(
    Registered,
    owner=OWNERS,
    status=st.sampled_from([Webhook.Status.ACTIVE, *Webhook.Status]),
    event_types=st.lists(st.sampled_from([*NAMES, *OTHER_TEXT]), max_size=6),
    is_later=st.booleans(),
    deleted=st.sampled_from(["never", "never", "before", "after"]),
)


@pytest.fixture
def owners(django_user_model):
    names = ("alice", "bob")
    return {None: None} | {name: django_user_model.objects.create_user(name) for name in names}


@pytest.fixture
def _names():
    types = [EventType(name=name, description=name, data_model=Nothing, example={}) for name in NAMES]
    with registry.temporarily(*types):
        yield


def save(*webhooks):
    """Save webhooks in their state before the event, in which none is deleted."""
    now = timezone.now()
    deleted_later = {each: each.deleted_at for each in webhooks if each.deleted_at and each.deleted_at > now}
    for webhook in deleted_later:
        webhook.deleted_at = None
    Webhook.objects.bulk_create(webhooks)
    for webhook, deleted_at in deleted_later.items():
        webhook.deleted_at = deleted_at


def clear():
    for model in (Delivery, Event, Webhook):
        model.objects.all().delete()


def got(event):
    return set(event.deliveries.values_list("webhook", flat=True))


def admitted(webhooks, event):
    return {webhook.pk for webhook in webhooks if admits(webhook, event) == Reason.SENT}


many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.usefixtures("_names")
@many
@given(registered=st.lists(REGISTERED, max_size=8), name=st.sampled_from(NAMES), owner=OWNERS)
def test_emission_selects_the_admitted_webhooks(owners, registered, name, owner):
    clear()
    webhooks = [each.webhook(owners) for each in registered]
    earlier = [webhook for webhook in webhooks if webhook.created_at < timezone.now()]
    save(*earlier)

    event = emit(name, {}, owner=owners[owner])

    save(*(webhook for webhook in webhooks if webhook not in earlier))
    for webhook in webhooks:
        Webhook.objects.filter(pk=webhook.pk).update(deleted_at=webhook.deleted_at)
    routed = RoutedEvent.of(event)
    assert got(event) == admitted(webhooks, routed)
    expected = {each.pk: admits(each, routed) for each in webhooks if each.owner_id in (None, event.owner_id)}
    assert {each.webhook.pk: each.reason for each in decide(event, with_platform=True)} == expected


@pytest.mark.usefixtures("_names")
@many
@given(registered=REGISTERED, name=st.sampled_from(NAMES), owner=OWNERS)
def test_a_replay_finds_the_events_of_its_webhook(owners, registered, name, owner):
    clear()
    webhook = registered.webhook(owners)
    save(webhook)
    event = emit(name, {}, owner=owners[owner])
    event.deliveries.all().delete()
    now = timezone.now()

    found = look("default", Replay(webhook=webhook, since=now - HOUR, until=now + HOUR))

    matches = [match.event_id for match in found.matches]
    assert matches == ([event.pk] if concerns(webhook, RoutedEvent.of(event)) else [])


@many
@given(registered=st.lists(REGISTERED, min_size=1, max_size=8), is_subscribed=st.lists(st.booleans(), min_size=8))
def test_emission_selects_the_admitted_webhooks_for_operational_events(owners, registered, is_subscribed):
    clear()
    webhooks = [each.webhook(owners) for each in registered]
    for webhook, subscribed in zip(webhooks, is_subscribed, strict=False):
        webhook.event_types += [WEBHOOK_DISABLED.name] if subscribed else []
        webhook.deleted_at = None if webhook.deleted_at is None else timezone.now() - HOUR
    save(*webhooks)
    subject_id = webhooks[0].pk

    emit_operational(
        "default",
        [Operational(WEBHOOK_DISABLED, subject_id, {**WEBHOOK_DISABLED.example, "webhook_id": subject_id})],
    )

    routed = RoutedEvent(type=WEBHOOK_DISABLED.name, subject_id=subject_id)
    expected = admitted(webhooks, routed)
    assert set(Delivery.objects.values_list("webhook", flat=True)) == expected
    assert set(webhooks_for(routed, "default").values_list("pk", flat=True)) == expected


REASONS = {
    "sent": ({}, {}, Reason.SENT),
    "other owner": ({"owner_id": 2}, {}, Reason.OTHER_OWNER),
    "platform": ({"owner_id": None}, {}, Reason.SENT),
    "owner's, of the platform's event": ({}, {"owner_id": None}, Reason.OTHER_OWNER),
    "about itself": ({"event_types": []}, {"subject_id": "wh_1"}, Reason.ABOUT_ITSELF),
    "deleted before": ({"deleted_at": timezone.now() - HOUR}, {}, Reason.DELETED),
    "deleted since": ({"deleted_at": timezone.now() + HOUR}, {}, Reason.SENT),
    "registered later": ({"created_at": timezone.now() + HOUR}, {}, Reason.REGISTERED_LATER),
    "not subscribed": ({"event_types": ["a.b.c"], "status": "disabled"}, {}, Reason.NOT_SUBSCRIBED),
    "pending": ({"status": "pending"}, {}, Reason.PENDING),
    "failed": ({"status": "failed"}, {}, Reason.FAILED),
    "disabled": ({"status": "disabled"}, {}, Reason.DISABLED),
}


@pytest.mark.parametrize(("webhook", "event", "reason"), REASONS.values(), ids=REASONS)
def test_the_first_unsatisfied_condition_is_the_reason(webhook, event, reason):
    now = timezone.now()
    values = {"pk": "wh_1", "owner_id": 1, "event_types": ["a.b"], "status": "active", "created_at": now - 2 * HOUR}
    facts = {"type": "a.b", "owner_id": 1, "emitted_at": now}

    assert admits(Webhook(**{**values, **webhook}), RoutedEvent(**{**facts, **event})) == reason


@pytest.mark.parametrize("name", NAMES)
def test_a_part_of_a_name_subscribes_to_nothing(name):
    Webhook.objects.bulk_create([Webhook(url=URL, event_types=[each]) for each in NAMES])

    assert list(Webhook.objects.filter(subscribed_to(name)).values_list("event_types", flat=True)) == [[name]]


def test_names_that_differ_in_case_are_not_confused():
    Webhook.objects.bulk_create([Webhook(url=URL, event_types=["A.B", "a.bC"])])

    assert not Webhook.objects.filter(subscribed_to("a.b") | subscribed_to("a.bc")).exists()


@pytest.mark.parametrize("text", ['a.b", "a.bc', '", "', "A.B", "a", "a.b ", "%", "", '"'])
def test_text_other_than_an_event_type_has_no_subscribers(text):
    Webhook.objects.bulk_create([Webhook(url=URL, event_types=["a.b", "a.bc", text], status="active")])

    assert not Webhook.objects.filter(subscribed_to(text)).exists()
    assert Webhook.objects.filter(subscribed_to("a.bc")).exists()


def test_the_filter_of_the_api_accepts_only_names(owners):
    make_webhook(owners["alice"], EVENT_TYPE, "file.deleted")

    answer = client_of(owners["alice"]).call("GET", f'/v1/webhooks?event_type={EVENT_TYPE}", "file.deleted')

    assert answer.json()["results"] == []
