"""A Django view for receiving webhooks that drops duplicates."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.core.cache import caches
from django.db import connections
from django.http import HttpResponse, JsonResponse

from .receiver import ReceivedEvent
from .receiver.django import WebhookView
from .receiver.verification import require_synchronous

__all__ = ["WebhookReceiverView"]

logger = logging.getLogger(__name__)

IN_PROGRESS = "in progress"
DONE = "done"


class WebhookReceiverView(WebhookView):
    """Receive webhooks, each event once: a ``WebhookView`` that drops duplicates.

    Handled events are recorded in Django's cache by id, separately for each path. If ``handle`` raises an exception,
    the answer is 500, database changes under ATOMIC_REQUESTS are rolled back, and the service's next retry is handled
    again. Duplicates pass if the cache loses entries or is not shared by all processes, so ``handle`` should tolerate
    them.
    """

    cache_alias = "default"

    remembered_for = timedelta(days=1)
    """How long a handled event is remembered in order to drop its duplicates."""

    claimed_for = timedelta(seconds=30)
    """How long duplicates are refused while the first request is handled. The service waits no longer than this for
    an answer. After a crash, the last retry, 36 seconds later, is therefore still handled."""

    def respond(self, event: ReceivedEvent, response: HttpResponse) -> HttpResponse:
        cache, key = caches[self.cache_alias], self._cache_key(event)
        if not cache.add(key, IN_PROGRESS, self.claimed_for.total_seconds()):
            if cache.get(key) == DONE:
                return JsonResponse({"status": "duplicate"})
            return _error("This event is already being handled; try again later.", status=409)
        try:
            require_synchronous(self.handle(event))
        except Exception:  # Every error of the host's code must lead to a retry.
            logger.exception("Could not handle the event %s of type %s", event.id, event.type)
            cache.delete(key)
            _roll_back_request()
            return _error("The event could not be handled.", status=500)
        _after_request_commits(lambda: cache.set(key, DONE, self.remembered_for.total_seconds()))
        return response

    def _cache_key(self, event: ReceivedEvent) -> str:
        identity = f"{self.request.path}\n{event.id}".encode(errors="backslashreplace")
        return f"webhooks_app.received.{hashlib.sha256(identity).hexdigest()}"


def _error(message: str, *, status: int) -> JsonResponse:
    return JsonResponse({"error": message}, status=status)


def _request_transactions() -> list[Any]:
    """Return the connections whose transaction Django opened for the request (ATOMIC_REQUESTS)."""
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.settings_dict["ATOMIC_REQUESTS"] and connection.in_atomic_block
    ]


def _roll_back_request() -> None:
    # Django does not see the exception, and would commit after an ordinary answer.
    for connection in _request_transactions():
        connection.set_rollback(True)


def _after_request_commits(action: Callable[[], object]) -> None:
    """Call the action after the request's transaction is committed; immediately if there is none."""
    transactions = _request_transactions()
    if transactions:
        transactions[0].on_commit(action)
    else:
        action()
