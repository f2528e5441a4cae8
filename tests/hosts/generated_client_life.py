"""A webhook's life by a generated client, which is the package ``client`` on the path. Prints the last delivery.

Arguments: the address of the service, an API key, and the URL of a receiver, or "" to delete the webhook.
"""

import json
import sys
import time

from client import AuthenticatedClient
from client.api.deliveries import deliveries_list, deliveries_redeliver, deliveries_retrieve
from client.api.webhooks import (
    webhooks_create,
    webhooks_destroy,
    webhooks_list,
    webhooks_pause,
    webhooks_resume,
    webhooks_retrieve,
    webhooks_test,
)
from client.models import NewWebhook, TestRequest
from client.models.event_type_name import EventTypeName


def live(client: AuthenticatedClient, url: str) -> None:
    """Create a webhook, wait until it is verified, pause and resume it, send a test event and redeliver it."""
    new = NewWebhook(url=url, events=[EventTypeName("order.paid")])
    created = webhooks_create.sync(client=client, body=new)
    for _ in range(100):
        if webhooks_retrieve.sync(created.id, client=client).status == "active":
            break
        time.sleep(0.3)
    assert webhooks_pause.sync(created.id, client=client).paused_at
    assert webhooks_resume.sync(created.id, client=client).paused_at is None
    webhooks_test.sync(client=client, body=TestRequest(webhook_id=created.id, event_type=EventTypeName("order.paid")))
    assert deliveries_redeliver.sync_detailed(last_delivery(client), client=client).status_code == 202


def last_delivery(client: AuthenticatedClient) -> str:
    for _ in range(100):
        newest = deliveries_list.sync(client=client).results[0]
        if newest.finished_at:
            return newest.id
        time.sleep(0.3)
    raise TimeoutError


def end(client: AuthenticatedClient) -> None:
    for webhook in webhooks_list.sync(client=client).results:
        assert webhooks_destroy.sync_detailed(webhook.id, client=client).status_code == 204


if __name__ == "__main__":
    address, key, receiver = sys.argv[1:]
    with AuthenticatedClient(base_url=address, token=key) as service:
        if receiver:
            live(service, receiver)
        delivery = deliveries_retrieve.sync(last_delivery(service), client=service)
        sys.stdout.write(json.dumps(delivery.to_dict()))
        if not receiver:
            end(service)
