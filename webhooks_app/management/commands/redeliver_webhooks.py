"""``manage.py redeliver_webhooks``"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...exceptions import WebhooksError
from ...models import Delivery
from ...pages.actions import DELIVERY, UserAction
from ..base import WebhooksCommand, follow


class Command(WebhooksCommand):
    help = (
        "Send the events of finished deliveries again, each as a new delivery, and print the ids of the new "
        "deliveries. With --retry, make the next attempts of pending deliveries now instead. "
        "Exits with status 1 if one of them is refused. "
        "To send everything that a webhook missed, use `replay_webhooks`."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("delivery_ids", nargs="+", metavar="DELIVERY", help="A delivery, dlv_….")
        parser.add_argument(
            "--retry",
            action="store_true",
            help="Make the next attempt of each pending delivery now. It counts as one of its attempts.",
        )
        parser.add_argument(
            "--wait",
            action="store_true",
            help="Show each attempt until all deliveries are finished. Exit with status 1 if one is not delivered.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        ids = list(dict.fromkeys(options["delivery_ids"]))
        is_only = len(ids) == 1
        action = DELIVERY["retry" if options["retry"] else "redeliver"]
        found = [self._perform(action, delivery_id, is_only=is_only) for delivery_id in ids]
        queued = [delivery for delivery in found if delivery is not None]
        undelivered = [delivery for delivery in queued if options["wait"] and not self._arrives(delivery)]
        if len(queued) < len(ids):
            raise CommandError(f"Refused: {len(ids) - len(queued)} of {len(ids)}.")
        if undelivered:
            raise CommandError(f"Not delivered: {len(undelivered)} of {len(ids)}.")

    def _perform(self, action: UserAction, delivery_id: str, *, is_only: bool) -> Delivery | None:
        """Print the id of the delivery to be sent, or the reason of the refusal to stderr. Raise the only refusal."""
        assert action.operation is not None
        try:
            delivery: Delivery = action.operation(_find(delivery_id), actor=self.actor)
        except (WebhooksError, CommandError) as error:
            if is_only:
                raise CommandError(f"{delivery_id}: {error}") from None
            self.note(f"{delivery_id}: {error}", role="ERROR")
            return None
        self.result(delivery.pk)
        return delivery

    def _arrives(self, delivery: Delivery) -> bool:
        self.note(f"{delivery.pk} to {delivery.webhook.url}:")
        return follow(delivery, self.note).state == Delivery.State.SUCCEEDED


def _find(delivery_id: str) -> Delivery:
    delivery = Delivery.objects.select_related("webhook", "queue_entry").filter(pk=delivery_id).first()
    if delivery is None:
        raise CommandError("No such delivery. An id looks like dlv_019c138f9ac012d1c9a64a2e0f3b7d55.")
    return delivery
