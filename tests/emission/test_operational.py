"""Operational events, written and announced in bulk."""

from __future__ import annotations

import pytest

from webhooks_app.emission import Operational, emit_operational
from webhooks_app.event_types import WEBHOOK_DISABLED, WEBHOOK_FAILING
from webhooks_app.models import Delivery, Event
from webhooks_app.signals import deliveries_created, event_emitted

from ..support.rows import make_webhook
from ..support.statements import statements_of

pytestmark = pytest.mark.django_db


def about(number, event_type=WEBHOOK_DISABLED):
    """Return this number of operational events, about different webhooks."""
    return [Operational(event_type, f"wh_{index}", event_type.example) for index in range(number)]


@pytest.fixture
def heard():
    found = []
    handlers = {
        event_emitted: lambda **arguments: found.append(arguments["deliveries"]),
        deliveries_created: lambda **arguments: found.append(arguments["sender"]),
    }
    for signal, handler in handlers.items():
        signal.connect(handler)
    yield found
    for signal, handler in handlers.items():
        signal.disconnect(handler)


def test_workers_are_woken_once_for_all_events(heard, django_capture_on_commit_callbacks):
    for _ in range(2):
        make_webhook(None, WEBHOOK_DISABLED.name)

    with django_capture_on_commit_callbacks(execute=True):
        assert emit_operational("default", about(3)) == 3

    assert heard == [2, 2, 2, Delivery]


def test_an_event_without_a_webhook_is_not_recorded(heard, django_capture_on_commit_callbacks):
    make_webhook(None, WEBHOOK_FAILING.name)

    with django_capture_on_commit_callbacks(execute=True):
        assert emit_operational("default", about(1)) == 0

    assert heard == []
    assert not Event.objects.exists()


def test_each_event_goes_to_the_subscribers_of_its_type():
    disabled, failing = make_webhook(None, WEBHOOK_DISABLED.name), make_webhook(None, WEBHOOK_FAILING.name)

    emit_operational("default", [*about(1), *about(2, WEBHOOK_FAILING)])

    assert [disabled.deliveries.count(), failing.deliveries.count()] == [1, 2]


def test_a_webhook_gets_no_operational_events_about_itself():
    itself, watcher = (make_webhook(None, WEBHOOK_DISABLED.name) for _ in range(2))

    emit_operational("default", [Operational(WEBHOOK_DISABLED, itself.pk, WEBHOOK_DISABLED.example)])

    assert [itself.deliveries.count(), watcher.deliveries.count()] == [0, 1]


def test_the_number_of_statements_does_not_depend_on_the_events():
    make_webhook(None, WEBHOOK_DISABLED.name)

    def statements(number):
        return len(statements_of(lambda: emit_operational("default", about(number))))

    assert statements(20) == statements(1)
