"""The catalogue of event types."""

from contextlib import suppress

import pytest
from pydantic import BaseModel

from webhooks_app.event_types import EventType, EventTypeRegistry
from webhooks_app.event_types.builtin import PRESENTATION_EVENT_TYPES
from webhooks_app.exceptions import InvalidEventTypeError, UnknownEventTypeError


class Empty(BaseModel):
    pass


def event_type(name, group=""):
    return EventType(name=name, description="Something happened", data_model=Empty, example={}, group=group)


def test_event_types_are_in_the_order_of_registration():
    catalogue = EventTypeRegistry(event_type("b.b"), event_type("a.a"))
    catalogue.register(event_type("c.c"))

    assert catalogue.names() == ("b.b", "a.a", "c.c")
    assert [each.name for each in catalogue] == ["b.b", "a.a", "c.c"]
    assert len(catalogue) == 3
    assert "a.a" in catalogue


def test_an_unknown_type_is_refused_with_a_suggestion_and_the_known_types():
    catalogue = EventTypeRegistry(*PRESENTATION_EVENT_TYPES)

    with pytest.raises(UnknownEventTypeError) as caught:
        catalogue.get("ppt.generation.complete")

    assert caught.value.known == catalogue.names()
    assert "'ppt.generation.complete'. Did you mean ppt.generation.completed?" in str(caught.value)
    assert "user.unsubscribed" in str(caught.value)


def test_a_long_unknown_name_is_shortened():
    with pytest.raises(UnknownEventTypeError) as caught:
        EventTypeRegistry(event_type("a.a")).get("x" * 1_000_000)

    assert len(str(caught.value)) < 300


def test_nothing_is_suggested_without_a_similar_name():
    with pytest.raises(UnknownEventTypeError) as caught:
        EventTypeRegistry(event_type("a.a")).get("zzz.yyy")

    assert str(caught.value) == "Unknown event type 'zzz.yyy'. Known types: a.a."


def test_a_name_can_be_registered_only_once():
    catalogue = EventTypeRegistry(event_type("a.a"))

    with pytest.raises(InvalidEventTypeError, match=r"a\.a is registered already"):
        catalogue.register(event_type("a.a"))


@pytest.mark.parametrize("name", ["webhook.verification", "webhook.retry"])
def test_the_names_of_internal_messages_are_reserved(name):
    with pytest.raises(InvalidEventTypeError, match="is the name of an internal message"):
        EventTypeRegistry(event_type(name))


def test_other_names_that_begin_with_webhook_are_allowed():
    assert EventTypeRegistry(event_type("webhook.disabled")).names() == ("webhook.disabled",)


def test_no_type_is_registered_if_one_of_several_is_refused():
    catalogue = EventTypeRegistry(event_type("a.a"))

    with pytest.raises(InvalidEventTypeError):
        catalogue.register(event_type("b.b"), event_type("a.a"))

    assert catalogue.names() == ("a.a",)


def test_an_unregistered_type_is_unknown():
    catalogue = EventTypeRegistry(event_type("a.a"), event_type("b.b"))

    assert catalogue.unregister("a.a").name == "a.a"

    assert catalogue.names() == ("b.b",)
    with pytest.raises(UnknownEventTypeError):
        catalogue.unregister("a.a")


def test_groups_keep_the_order_in_which_they_first_appear():
    catalogue = EventTypeRegistry(event_type("b.b", "B"), event_type("a.a", "A"), event_type("b.c", "B"))

    groups = {group: [each.name for each in members] for group, members in catalogue.groups().items()}

    assert groups == {"B": ["b.b", "b.c"], "A": ["a.a"]}
    assert list(groups) == ["B", "A"]


def test_a_temporary_type_is_removed_after_the_block_even_on_an_error():
    catalogue = EventTypeRegistry(event_type("a.a"))

    with suppress(RuntimeError), catalogue.temporarily(event_type("b.b")):
        catalogue.unregister("a.a")
        assert catalogue.names() == ("b.b",)
        raise RuntimeError

    assert catalogue.names() == ("a.a",)


def test_types_can_be_registered_during_an_iteration():
    catalogue = EventTypeRegistry(event_type("a.a"))

    for each in catalogue:
        catalogue.register(event_type(f"{each.name}.more"))

    assert catalogue.names() == ("a.a", "a.a.more")
