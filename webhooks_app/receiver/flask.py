"""A view for Flask that receives webhooks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Union

from flask import request

from .verification import DEFAULT_TOLERANCE, MAX_BODY_BYTES, ReceivedEvent, receive, require_synchronous

__all__ = ["webhook_view"]

logger = logging.getLogger(__name__)


def webhook_view(
    handle: Callable[[ReceivedEvent], object],
    secret: Union[str, Sequence[str]],
    *,
    tolerance: Union[timedelta, float, None] = DEFAULT_TOLERANCE,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Callable[[], Any]:
    """Return a view for POST that calls ``handle`` with each event.

    If ``handle`` raises an exception, Flask answers 500, and the service sends the event again. It may also send an
    event twice: store ``event.id`` in the transaction of your changes.
    """
    require_synchronous(handle)

    def receive_webhook() -> tuple[dict[str, str], int]:
        body = request.stream.read(max_body_bytes + 1)
        status, answer, event = receive(
            body, request.headers, secret, tolerance=tolerance, max_body_bytes=max_body_bytes
        )
        if event is not None:
            require_synchronous(handle(event))
        elif status != 200:
            logger.warning("Refused a request to %r: %s", request.path, answer["error"])
        return answer, status

    return receive_webhook
