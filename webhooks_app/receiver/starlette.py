"""An endpoint for Starlette and FastAPI that receives webhooks."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Union

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from .verification import DEFAULT_TOLERANCE, MAX_BODY_BYTES, ReceivedEvent, receive

__all__ = ["webhook_endpoint"]

logger = logging.getLogger(__name__)


def webhook_endpoint(
    handle: Callable[[ReceivedEvent], object],
    secret: Union[str, Sequence[str]],
    *,
    tolerance: Union[timedelta, float, None] = DEFAULT_TOLERANCE,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """Return an endpoint for POST that calls ``handle``, synchronous or asynchronous, with each event.

    If ``handle`` raises an exception, the framework answers 500, and the service sends the event again. It may also
    send an event twice: store ``event.id`` in the transaction of your changes.
    """

    async def receive_webhook(request: Request) -> JSONResponse:
        body = await _read(request, max_body_bytes + 1)
        code, answer, event = receive(body, request.headers, secret, tolerance=tolerance, max_body_bytes=max_body_bytes)
        if event is not None:
            result = handle(event) if inspect.iscoroutinefunction(handle) else await run_in_threadpool(handle, event)
            if inspect.isawaitable(result):
                await result
        elif code != 200:
            logger.warning("Refused a request to %r: %s", request.url.path, answer["error"])
        return JSONResponse(answer, code)

    return receive_webhook


async def _read(request: Request, size: int) -> bytes:
    """Return the body, and of a longer one no more than the chunk that reaches ``size``."""
    body = b""
    with suppress(ClientDisconnect):  # nobody reads the answer, and the signature of a part is wrong
        async for chunk in request.stream():
            body += chunk
            if len(body) >= size:
                break
    return body
