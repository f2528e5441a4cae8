"""Signed requests, as a service sends them, for the tests of a receiver."""

from __future__ import annotations

import inspect
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple, Optional, Union

from .schemes import BaseSignature, Message, NativeSignature
from .verification import VERIFICATION_TYPE


class SignedRequest(NamedTuple):
    body: bytes
    headers: dict[str, str]


def signed_request(
    event_type: str,
    data: Mapping[str, Any],
    secret: Union[str, Sequence[str]],
    *,
    event_id: str = "",
    timestamp: Optional[int] = None,
    scheme: Optional[BaseSignature] = None,
) -> SignedRequest:
    """Return an event as a service sends it, or with the type ``webhook.verification`` a handshake.

    ``secret`` is the key that signs, or several keys as during a rotation, the current one first. ``timestamp``, in
    Unix seconds, is the time of the request and of the event. ``event_id`` is random by default, and ``scheme`` is that
    of the specification.
    """
    scheme = scheme or NativeSignature()
    moment = int(time.time()) if timestamp is None else timestamp
    message_id = event_id or f"evt_{secrets.token_hex(16)}"
    content: dict[str, Any] = {"type": event_type, "data": data}
    if event_type != VERIFICATION_TYPE:
        created = datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        content = {"id": message_id, "type": event_type, "created": created, "data": data}
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    message = Message(message_id, event_type, moment, body)
    keys = [secret] if isinstance(secret, str) else list(secret)
    headers = dict(scheme.headers(message, scheme.sign(message, keys)))
    return SignedRequest(body, {"Content-Type": "application/json", **headers})


class WebhookSender:
    """Sends signed requests to an app through the test client of its framework.

    The client is that of Django, Django REST framework, Flask, Starlette, FastAPI or httpx, or anything else with a
    method ``post`` that takes ``data`` or ``content`` and ``headers``.
    """

    def __init__(self, secret: Union[str, Sequence[str]], *, scheme: Optional[BaseSignature] = None) -> None:
        self.secret = secret
        self.scheme = scheme

    def send(
        self,
        client: Any,
        path: str,
        event_type: str,
        data: Mapping[str, Any],
        *,
        event_id: str = "",
        timestamp: Optional[int] = None,
    ) -> Any:
        """Send an event to a path, and return the client's response. The arguments are those of ``signed_request``."""
        body, headers = signed_request(
            event_type, data, self.secret, event_id=event_id, timestamp=timestamp, scheme=self.scheme
        )
        parameters = inspect.signature(client.post).parameters
        if "content_type" in parameters:
            return client.post(path, body, content_type=headers.pop("Content-Type"), headers=headers)
        return client.post(path, **{"content" if "content" in parameters else "data": body}, headers=headers)

    def send_challenge(self, client: Any, path: str, challenge: str = "a challenge") -> Any:
        """Send a handshake to a path, and return the client's response."""
        return self.send(client, path, VERIFICATION_TYPE, {"challenge": challenge})
