"""A Django view that receives webhooks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Union

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import View

from .verification import DEFAULT_TOLERANCE, MAX_BODY_BYTES, ReceivedEvent, receive, require_synchronous

__all__ = ["WebhookView"]
logger = logging.getLogger(__name__)


@method_decorator(csrf_exempt, name="dispatch")
class WebhookView(View):
    """Receive webhooks: subclass it and write ``handle(event)``, or pass a secret and a function to ``as_view``.

    If ``handle`` raises an exception, Django answers 500, and the service sends the event again. It may also send an
    event twice: store ``event.id`` in the transaction of your changes.
    """

    http_method_names = ("post",)
    secret: Union[str, Sequence[str]] = ()
    tolerance: Union[timedelta, float, None] = DEFAULT_TOLERANCE
    max_body_bytes = MAX_BODY_BYTES

    def handle(self, event: ReceivedEvent) -> object:
        """Handle a genuine event."""
        raise ImproperlyConfigured(f"{type(self).__name__} has no handle(); write it, or pass it to as_view().")

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not self.secret:
            raise ImproperlyConfigured(f"{type(self).__name__} has no secret; set it, or pass it to as_view().")
        require_synchronous(self.handle)
        try:
            body = request.read(self.max_body_bytes + 1)
        except Exception:  # noqa: BLE001 - servers raise errors of their own
            body = b""
        status, answer, event = receive(
            body, request.headers, self.secret, tolerance=self.tolerance, max_body_bytes=self.max_body_bytes
        )
        response = JsonResponse(answer, status=status)
        if status != 200:
            logger.warning("Refused a request to %r: %s", request.path, answer["error"])
        return response if event is None else self.respond(event, response)

    def respond(self, event: ReceivedEvent, response: HttpResponse) -> HttpResponse:
        """Handle an event, and return the response to it."""
        require_synchronous(self.handle(event))
        return response
