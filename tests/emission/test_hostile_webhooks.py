"""Webhooks of the platform with hostile values in any column: owners' events are recorded and delivered."""

from __future__ import annotations

from functools import partial

import pytest

from webhooks_app import NewEvent, emit, emit_many
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Delivery, Event, QueueEntry, Webhook
from webhooks_app.transport.memory import MemoryTransport

from ..support.hostile import columns_of, make_victims, spoiled
from ..support.rows import EVENT_TYPE, make_webhook

pytestmark = pytest.mark.django_db(transaction=True)

COLUMNS = [field.name for field in columns_of(Webhook)]


def spoil_platform(owner, column):
    """Make active webhooks of the platform with hostile values in this column."""
    make = partial(make_victims, owner, event_types=[EVENT_TYPE])
    hostile = spoiled(Webhook, make, leave=[name for name in COLUMNS if name not in (column, "owner")])
    ids = [each.webhook_id for each in hostile]
    if column != "owner":
        Webhook.objects.filter(pk__in=ids).update(owner=None)
    Delivery.objects.all().delete()
    QueueEntry.objects.all().delete()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_hostile_webhook_of_the_platform_does_not_stop_events_of_owners(alice, bob, column):
    spoil_platform(alice, column)
    healthy = make_webhook(bob)
    new = NewEvent(EVENT_TYPE, {"error": "No outline"}, owner=bob, ordering_key="deck-1", references=["deck-1"])

    emit(EVENT_TYPE, {"error": "No outline"}, owner=bob)
    emit(EVENT_TYPE, {"error": "No outline"}, owner=bob, idempotency_key="1", ordering_key="deck-1")
    emit_many([new, new])

    assert Event.objects.filter(owner=bob, type=EVENT_TYPE).count() == 4
    Engine(transport=MemoryTransport(transport_options())).run_until_idle(await_retries=False)
    assert healthy.deliveries.filter(state="succeeded").count() == 4
