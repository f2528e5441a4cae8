"""Verification of received requests, for integrators. Needs no Django."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from ..exceptions import WebhookVerificationError
from ..protocol.handshake import VERIFICATION_TYPE
from ..signatures import EVENT_HEADER, SIGNATURES, STANDARD_ID_HEADER, BaseSignature, NativeSignature

DEFAULT_TOLERANCE = timedelta(minutes=5)

BUILT_IN_SCHEMES = tuple(SIGNATURES.named(tuple(SIGNATURES.built_in)).values())
NATIVE = NativeSignature()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedEvent:
    """A genuine message of the service. ``id`` and ``created`` are None in the verification message only."""

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
    schemes: Sequence[BaseSignature] = BUILT_IN_SCHEMES,
) -> ReceivedEvent:
    """Return the event of a received request after checking its signature, age and form.

    ``body`` is the raw body, before any parsing. Names of ``headers`` are case-insensitive. ``secret`` is the webhook's
    secret, or its public key (``whpk_…``), or several of them during a rotation. The headers of the specification and
    those of Standard Webhooks are supported; one valid signature is enough. This includes the signature in
    X-Webhook-Signature-Previous, which the service sends during the overlap of a rotation, and the one in
    X-Webhook-Signature-Next, which it sends while a new secret is prepared. ``tolerance``, a timedelta
    or a number of seconds, is the largest accepted difference between the timestamp and the current time; None disables
    the check. ``schemes`` are the accepted signature schemes.

    No body and no headers lead to another error than WebhookVerificationError. Raise WebhookVerificationError for a
    request that is not genuine or not recent, and ValueError for an empty secret.
    """
    secrets = _secrets(secret)
    raw_body = _raw_body(body)
    found = _headers(headers, schemes)
    scheme, timestamp = _verified(raw_body, found, secrets, schemes)
    _check_age(timestamp, tolerance, now)
    event = _event(_message(raw_body))
    if scheme.name == NATIVE.name and found.get(EVENT_HEADER) != event.type:
        raise WebhookVerificationError(f"The header {EVENT_HEADER} differs from the type in the body.")
    if STANDARD_ID_HEADER in scheme.header_names and event.id not in (None, found[STANDARD_ID_HEADER]):
        raise WebhookVerificationError(f"The header {STANDARD_ID_HEADER} differs from the id in the body.")
    return event


def challenge_answer(event: ReceivedEvent) -> dict[str, str]:
    """Return the JSON object that answers a verification message. Raise ValueError for any other event."""
    if not event.is_verification:
        raise ValueError(f"{event.type} has no challenge; answer it with status 200.")
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


def _headers(headers: object, schemes: Sequence[BaseSignature]) -> dict[str, str]:
    """Return the headers of the schemes under their usual names. Refuse duplicates, because either could count."""
    ours = {name.lower(): name for scheme in schemes for name in scheme.header_names}
    found: dict[str, str] = {}
    for raw_name, raw_value in _pairs(headers):
        name = ours.get(_text(raw_name).lower())
        if name is None:
            continue
        values = raw_value if isinstance(raw_value, list | tuple) else [raw_value]
        if name in found or len(values) != 1:
            raise WebhookVerificationError(f"The header {name} must be present exactly once.")
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


def _verified(
    body: bytes, headers: Mapping[str, str], keys: Sequence[str], schemes: Sequence[BaseSignature]
) -> tuple[BaseSignature, int]:
    """Return the first scheme that verifies the request, and the signed timestamp."""
    problem: WebhookVerificationError | None = None
    present = [scheme for scheme in schemes if headers.get(scheme.signature_header)]
    for scheme in present or [NATIVE]:
        try:
            return scheme, scheme.verify(body, headers, [key for key in keys if scheme.verifies_with(key)])
        except WebhookVerificationError as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _check_age(timestamp: int, tolerance: timedelta | float | None, now: datetime | None) -> None:
    if tolerance is None:
        return
    seconds = tolerance.total_seconds() if isinstance(tolerance, timedelta) else tolerance
    current = time.time() if now is None else now.timestamp()
    if abs(current - timestamp) > seconds:
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
