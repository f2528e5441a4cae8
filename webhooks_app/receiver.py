"""The integrator's side: from a received request to a genuine event, or an error. Needs no Django."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from .exceptions import WebhookVerificationError
from .handshake import VERIFICATION_TYPE
from .signing import EVENT_HEADER, PREVIOUS_SIGNATURE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign

DEFAULT_TOLERANCE = timedelta(minutes=5)
MAX_TIMESTAMP_DIGITS = 12

_OUR_HEADERS = {
    name.lower(): name for name in (SIGNATURE_HEADER, PREVIOUS_SIGNATURE_HEADER, TIMESTAMP_HEADER, EVENT_HEADER)
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedEvent:
    """A genuine message of the service. ``id`` and ``created`` are None for the verification message alone."""

    id: str | None
    type: str
    created: datetime | None
    data: dict[str, Any]

    @property
    def is_verification(self) -> bool:
        return self.type == VERIFICATION_TYPE


def verify(
    body: bytes,
    headers: Mapping[str, object],
    secret: str | Sequence[str],
    *,
    tolerance: timedelta | float | None = DEFAULT_TOLERANCE,
    now: datetime | None = None,
) -> ReceivedEvent:
    """Return the event of a received request, once its signature, age and form are found right.

    ``body`` is the raw body, before any parsing. ``headers`` may have names in any case. Several secrets are
    accepted while they are rotated; so is a signature in X-Webhook-Signature-Previous, which the service sends
    for a while beside the current one, so that a receiver that still holds the old secret misses nothing.
    ``tolerance``, a timedelta or seconds, is how far the timestamp may lie in the past or future; None turns
    that check off.

    Raises WebhookVerificationError, and nothing else, whatever the body and the headers are. An empty secret is
    a mistake of the caller's and a plain ValueError.
    """
    secrets = _secrets(secret)
    raw_body = _raw_body(body)
    found = _headers(headers)
    timestamp = _timestamp(found)
    _check_signature(raw_body, timestamp, found, secrets)
    _check_age(timestamp, tolerance, now)
    event = _event(_message(raw_body))
    if found.get(EVENT_HEADER) != event.type:
        raise WebhookVerificationError(f"The header {EVENT_HEADER} differs from the type in the body.")
    return event


def challenge_answer(event: ReceivedEvent) -> dict[str, str]:
    """Return the JSON object to answer a verification message with. Raises ValueError for any other event."""
    if not event.is_verification:
        raise ValueError(f"{event.type} asks for no challenge; answer it with status 200.")
    return {"challenge": event.data["challenge"]}


def _secrets(secret: str | Sequence[str]) -> tuple[str, ...]:
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    if not (secrets and all(secrets)):
        raise ValueError("The secret is empty; pass the webhook's secret, or several while you rotate it.")
    return secrets


def _raw_body(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise WebhookVerificationError(f"The body is of type {type(body).__name__}; pass the raw bytes.")
    return bytes(body)


def _headers(headers: object) -> dict[str, str]:
    """Return our headers under their usual names. One that came twice is refused: nobody knows which counts."""
    found: dict[str, str] = {}
    for raw_name, raw_value in _pairs(headers):
        name = _OUR_HEADERS.get(_text(raw_name).lower())
        if name is None:
            continue
        values = raw_value if isinstance(raw_value, list | tuple) else [raw_value]
        if name in found or len(values) != 1:
            raise WebhookVerificationError(f"The header {name} must be there exactly once.")
        found[name] = _text(values[0])
    return found


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    try:
        for name, value in headers.items():  # type: ignore[attr-defined]  # noqa: UP028 - unpack inside the try
            yield name, value
    except (AttributeError, TypeError, ValueError):
        raise WebhookVerificationError("The headers are not a mapping of names to values.") from None


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def _timestamp(headers: Mapping[str, str]) -> str:
    timestamp = headers.get(TIMESTAMP_HEADER, "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MAX_TIMESTAMP_DIGITS):
        raise WebhookVerificationError(f"The header {TIMESTAMP_HEADER} is missing or not a Unix time in seconds.")
    return timestamp


def _check_signature(body: bytes, timestamp: str, headers: Mapping[str, str], secrets: Sequence[str]) -> None:
    if not headers.get(SIGNATURE_HEADER):
        raise WebhookVerificationError(f"The header {SIGNATURE_HEADER} is missing.")
    received = [headers[name] for name in (SIGNATURE_HEADER, PREVIOUS_SIGNATURE_HEADER) if name in headers]
    for secret in secrets:
        expected = sign(secret, timestamp, body).encode()
        if any(hmac.compare_digest(expected, signature.encode(errors="replace")) for signature in received):
            return
    raise WebhookVerificationError("The signature does not match; check the secret, and that the body is raw.")


def _check_age(timestamp: str, tolerance: timedelta | float | None, now: datetime | None) -> None:
    if tolerance is None:
        return
    seconds = tolerance.total_seconds() if isinstance(tolerance, timedelta) else tolerance
    current = time.time() if now is None else now.timestamp()
    if abs(current - int(timestamp)) > seconds:
        raise WebhookVerificationError(
            f"The timestamp {timestamp} is more than {seconds:g} seconds away from this machine's time."
        )


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise WebhookVerificationError("The body is not JSON in UTF-8.") from None
    if not (isinstance(message, dict) and isinstance(message.get("data"), dict)):
        raise WebhookVerificationError("The body is not a JSON object with the object data in it.")
    return message


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _event(message: Mapping[str, Any]) -> ReceivedEvent:
    event_type, data = _text_of(message, "type"), message["data"]
    if event_type == VERIFICATION_TYPE:
        _text_of(data, "challenge")
        return ReceivedEvent(id=None, type=event_type, created=None, data=data)
    return ReceivedEvent(
        id=_text_of(message, "id"), type=event_type, created=_time(_text_of(message, "created")), data=data
    )


def _text_of(message: Mapping[str, Any], field: str) -> str:
    value = message.get(field)
    if not (isinstance(value, str) and value):
        raise WebhookVerificationError(f"The field {field} of the body is missing or not a string.")
    return value


def _time(text: str) -> datetime:
    problem = WebhookVerificationError("The field created of the body is not an ISO 8601 time with a zone.")
    try:
        moment = datetime.fromisoformat(text)
        in_utc = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise problem from None
    if moment.tzinfo is None:
        raise problem
    return in_utc
