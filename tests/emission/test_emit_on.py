"""Django signals bound to event types."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models.signals import post_save
from django.dispatch import Signal

from webhooks_app import NewEvent, emit_on
from webhooks_app.exceptions import InvalidEventDataError
from webhooks_app.models import Event

from ..support.rows import EVENT_TYPE

pytestmark = pytest.mark.django_db


@pytest.fixture
def something_failed():
    return Signal()


def test_a_signal_of_the_host_becomes_an_event(something_failed, django_user_model):
    alice = django_user_model.objects.create_user("alice")
    emit_on(something_failed, EVENT_TYPE, lambda sender, user, why: (user, {"error": why}))

    something_failed.send(None, user=alice, why="No outline")

    event = Event.objects.get()
    assert (event.type, event.owner, event.data) == (EVENT_TYPE, alice, {"error": "No outline"})


def test_the_function_can_declare_only_some_arguments(something_failed, settings):
    settings.DEBUG = True  # Django then checks the arguments of signal handlers

    emit_on(something_failed, EVENT_TYPE, lambda sender, why: (None, {"error": why}))
    something_failed.send(None, why="No outline")

    assert Event.objects.get().data == {"error": "No outline"}


def test_the_function_can_return_an_event_with_all_arguments(something_failed, django_user_model):
    alice = django_user_model.objects.create_user("alice")
    day = datetime(2026, 5, 1, tzinfo=UTC)

    @emit_on(something_failed, EVENT_TYPE)
    def failed(sender, why):
        return NewEvent(
            EVENT_TYPE,
            {"error": why},
            owner=alice,
            occurred_at=day,
            references=["ppt_1"],
            ordering_key="ppt_1",
            idempotency_key=f"failed-{why}",
        )

    something_failed.send(None, why="No outline")
    something_failed.send(None, why="No outline")

    event = Event.objects.get()
    assert (event.owner, event.data, event.ordering_key) == (alice, {"error": "No outline"}, "ppt_1")
    assert [reference.value for reference in event.references.all()] == ["ppt_1"]
    assert event.created_at == day


def test_an_event_of_another_type_is_refused(something_failed):
    emit_on(something_failed, EVENT_TYPE, lambda sender: NewEvent("file.deleted", {"file_id": "file_1"}, owner=None))

    with pytest.raises(ValueError, match=f"This function emits {EVENT_TYPE}, and returned .* type file.deleted"):
        something_failed.send(None)

    assert Event.objects.count() == 0


def test_none_emits_no_event(something_failed):
    emit_on(something_failed, EVENT_TYPE, lambda sender: None)

    something_failed.send(None)

    assert Event.objects.count() == 0


def test_a_models_signal_can_be_bound_as_a_decorator():
    @emit_on(post_save, EVENT_TYPE, sender=Group, dispatch_uid="groups")
    def group_made(sender, instance, created, **kwargs):
        return (None, {"error": instance.name}) if created else None

    try:
        group = Group.objects.create(name="editors")
        group.save()
        get_user_model().objects.create_user("not a group")
    finally:
        post_save.disconnect(sender=Group, dispatch_uid="groups")

    assert [event.data for event in Event.objects.all()] == [{"error": "editors"}]


def test_rows_loaded_from_a_fixture_emit_no_events(something_failed):
    emit_on(something_failed, EVENT_TYPE, lambda sender, raw: (None, {"error": "x"}))

    something_failed.send(None, raw=True)

    assert Event.objects.count() == 0


def test_invalid_data_raises_an_error_in_the_sender_of_the_signal(something_failed):
    emit_on(something_failed, EVENT_TYPE, lambda sender: (None, {"wrong": 1}))

    with pytest.raises(InvalidEventDataError, match="wrong"):
        something_failed.send(None)
