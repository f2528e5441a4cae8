"""A webhook's life by a generated client, which is the package ``client`` on the path. Prints the last delivery.

Arguments: the address of the service, an API key, and the URL of a receiver, or "" to print the last delivery alone.
"""

import json
import sys
import time

from client import AuthenticatedClient
from client.api.deliveries import deliveries_list, deliveries_retrieve
from client.api.webhooks import webhooks_create, webhooks_pause, webhooks_resume, webhooks_retrieve, webhooks_test
from client.models import NewWebhook, TestRequest
from client.models.event_type_name import EventTypeName


def live(client: AuthenticatedClient, url: str) -> None:
    """Create a webhook, wait until it is verified, pause and resume it, and send a test event."""
    new = NewWebhook(url=url, events=[EventTypeName("order.paid")])
    created = webhooks_create.sync(client=client, body=new)
    for _ in range(100):
        if webhooks_retrieve.sync(created.id, client=client).status == "active":
            break
        time.sleep(0.3)
    assert webhooks_pause.sync(created.id, client=client).paused_at
    assert webhooks_resume.sync(created.id, client=client).paused_at is None
    webhooks_test.sync(client=client, body=TestRequest(webhook_id=created.id, event_type=EventTypeName("order.paid")))


def last_delivery(client: AuthenticatedClient) -> dict:
    for _ in range(100):
        newest = deliveries_list.sync(client=client).results[0]
        if newest.finished_at:
            break
        time.sleep(0.3)
    return deliveries_retrieve.sync(newest.id, client=client).to_dict()


if __name__ == "__main__":
    address, key, receiver = sys.argv[1:]
    with AuthenticatedClient(base_url=address, token=key) as service:
        if receiver:
            live(service, receiver)
        sys.stdout.write(json.dumps(last_delivery(service)))
