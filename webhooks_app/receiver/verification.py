"""Verification of received requests, and the answers to them."""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple, NoReturn, Optional, Protocol, Union

from .schemes import EVENT_HEADER, SCHEMES, STANDARD_ID_HEADER, BaseSignature, NativeSignature, WebhookVerificationError

DEFAULT_TOLERANCE = timedelta(minutes=5)

MAX_BODY_BYTES = 1024 * 1024
"""The longest body that a view reads by default: four times the largest envelope that a service sends by default."""

VERIFICATION_TYPE = "webhook.verification"
RETRY_NOTICE_TYPE = "webhook.retry"

NATIVE = NativeSignature()


class HeaderPairs(Protocol):
    """A mapping of headers, or another object with the same method, such as those of Flask and ``email``."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return pairs of a name and a value, or a list with one value."""
        ...


@dataclass(frozen=True)
class ReceivedEvent:
    """A genuine message of the service. ``id`` and ``created`` are None in the verification message only."""

    id: Optional[str]
    type: str
    created: Optional[datetime]
    data: dict[str, Any]

    @property
    def is_verification(self) -> bool:
        return self.type == VERIFICATION_TYPE


def require_synchronous(handle: object) -> None:
    """Raise TypeError for a coroutine function, or for what it returns, since nobody would await it."""
    if inspect.iscoroutine(handle):
        handle.close()
    if inspect.iscoroutinefunction(handle) or inspect.isawaitable(handle):
        raise TypeError("handle is asynchronous; pass a function that waits for it, such as async_to_sync(handle).")


def verify(
    body: bytes,
    headers: HeaderPairs,
    secret: Union[str, Sequence[str]],
    *,
    tolerance: Union[timedelta, float, None] = DEFAULT_TOLERANCE,
    now: Optional[datetime] = None,
    schemes: Sequence[BaseSignature] = SCHEMES,
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


class Reception(NamedTuple):
    """The answer to a request: a status, and an object to send as JSON."""

    status: int
    answer: dict[str, str]
    event: Optional[ReceivedEvent] = None
    """The event to handle before the answer is sent; None for a handshake and for a refused request."""


def receive(
    body: bytes,
    headers: HeaderPairs,
    secret: Union[str, Sequence[str]],
    *,
    tolerance: Union[timedelta, float, None] = DEFAULT_TOLERANCE,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Reception:
    """Return the answer to a request, for views. They need not read more than ``max_body_bytes`` and one byte.

    The other arguments are those of ``verify``. Raise ValueError for an empty secret.
    """
    if len(body) > max_body_bytes:
        return Reception(413, {"error": f"The body is longer than {max_body_bytes} bytes."})
    try:
        event = verify(body, headers, secret, tolerance=tolerance)
    except WebhookVerificationError as error:
        return Reception(400, {"error": str(error)})
    if event.is_verification:
        return Reception(200, challenge_answer(event))
    return Reception(200, {"status": "received"}, event)


def _secrets(secret: Union[str, Sequence[str]]) -> tuple[str, ...]:
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    if not (secrets and all(secrets)):
        raise ValueError("The secret is empty; pass the webhook's secret, or several while you rotate it.")
    return secrets


def _raw_body(body: object) -> bytes:
    if not isinstance(body, (bytes, bytearray, memoryview)):
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
        values = raw_value if isinstance(raw_value, (list, tuple)) else [raw_value]
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
    problem: Optional[WebhookVerificationError] = None
    present = [scheme for scheme in schemes if headers.get(scheme.signature_header)]
    for scheme in present or [NATIVE]:
        try:
            return scheme, scheme.verify(body, headers, [key for key in keys if scheme.verifies_with(key)])
        except WebhookVerificationError as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _check_age(timestamp: int, tolerance: Union[timedelta, float, None], now: Optional[datetime]) -> None:
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
        moment = datetime.fromisoformat(_as_before_python_3_11(text))
        in_utc = moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise problem from None
    if moment.tzinfo is None:
        raise problem
    return in_utc


def _as_before_python_3_11(text: str) -> str:
    """Return a time with the offset and the digits that ``fromisoformat`` requires before Python 3.11."""
    text = f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text
    return re.sub(r"[.,]([0-9]{1,6})[0-9]*", lambda found: f".{found[1]:0<6}", text)
