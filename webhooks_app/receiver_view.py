"""A Django view for receiving webhooks: it verifies them, answers the challenge and drops duplicates."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.http import HttpRequest, JsonResponse, UnreadablePostError
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View

from .exceptions import WebhookVerificationError
from .receiver import DEFAULT_TOLERANCE, ReceivedEvent, challenge_answer, verify
from .request_body import read_at_most

__all__ = ["WebhookReceiverView"]

logger = logging.getLogger(__name__)

IN_PROGRESS = "in progress"
DONE = "done"


@method_decorator(csrf_exempt, name="dispatch")
class WebhookReceiverView(View):
    """Receive webhooks: subclass it and write ``handle(event)``, or pass a secret and a function to ``as_view``.

    ``handle`` is called once per event, even if the event arrives several times: handled events are recorded in
    Django's cache by id, separately for each path. If ``handle`` raises an exception, the answer is 500, database
    changes under ATOMIC_REQUESTS are rolled back, and the service's next retry is handled again. Duplicates pass if
    the cache loses entries or is not shared by all processes, so ``handle`` should tolerate them.
    """

    http_method_names = ("post",)

    secret: str | Sequence[str] = ()
    """The webhook's secret, or several secrets during a rotation."""

    tolerance: timedelta | float | None = DEFAULT_TOLERANCE
    max_body_bytes = 1024 * 1024
    cache_alias = "default"

    remembered_for = timedelta(days=1)
    """How long a handled event is remembered in order to drop its duplicates."""

    claimed_for = timedelta(seconds=30)
    """How long duplicates are refused while the first request is handled. The service waits no longer than this for
    an answer. After a crash, the last retry, 36 seconds later, is therefore still handled."""

    def handle(self, event: ReceivedEvent) -> object:
        """Handle a genuine event that is not a duplicate."""
        raise ImproperlyConfigured(f"{type(self).__name__} has no handle(); write it, or pass it to as_view().")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self._check_configuration()
        body = self._read_body(request)
        if body is None:
            return _error(f"The body is longer than {self.max_body_bytes} bytes.", status=413)
        try:
            event = verify(body, request.headers, self.secret, tolerance=self.tolerance)
        except WebhookVerificationError as error:
            logger.warning("Refused a request to %r: %s", request.path, error)
            return _error(str(error), status=400)
        if event.is_verification:
            return JsonResponse(challenge_answer(event))
        return self._handle_once(event)

    def _handle_once(self, event: ReceivedEvent) -> HttpResponseBase:
        cache, key = caches[self.cache_alias], self._cache_key(event)
        if not cache.add(key, IN_PROGRESS, self.claimed_for.total_seconds()):
            if cache.get(key) == DONE:
                return JsonResponse({"status": "duplicate"})
            return _error("This event is already being handled; try again later.", status=409)
        try:
            self.handle(event)
        except Exception:  # Every error of the host's code must lead to a retry.
            logger.exception("Could not handle the event %s of type %s", event.id, event.type)
            cache.delete(key)
            _roll_back_request()
            return _error("The event could not be handled.", status=500)
        _after_request_commits(lambda: cache.set(key, DONE, self.remembered_for.total_seconds()))
        return JsonResponse({"status": "received"})

    def _cache_key(self, event: ReceivedEvent) -> str:
        identity = f"{self.request.path}\n{event.id}".encode(errors="backslashreplace")
        return f"webhooks_app.received.{hashlib.sha256(identity).hexdigest()}"

    def _read_body(self, request: HttpRequest) -> bytes | None:
        """Return the body, or None if it is too long; nothing beyond the limit is read."""
        try:
            body = read_at_most(request, self.max_body_bytes + 1)
        except UnreadablePostError:
            return b""
        return body if len(body) <= self.max_body_bytes else None

    def _check_configuration(self) -> None:
        if not self.secret:
            raise ImproperlyConfigured(f"{type(self).__name__} has no secret; set it, or pass it to as_view().")
        handle: Callable[..., Any] = self.handle
        if inspect.iscoroutinefunction(handle):
            raise ImproperlyConfigured(f"{type(self).__name__}.handle is asynchronous; wrap it in async_to_sync.")


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
