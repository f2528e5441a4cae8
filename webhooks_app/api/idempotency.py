"""The header ``Idempotency-Key``: a request that is repeated gets the answer to the first one.

The answer is stored in the transaction of the request, so that both are committed, or neither.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, connections, router, transaction
from django.http import HttpRequest
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from ..database.dialects import dialect_of
from ..database.sql import is_deadlock, is_lock_timeout, writing
from ..exceptions import SecretUnreadableError
from ..models import ApiKey, StoredAnswer
from .errors import Conflict, api_exception

if TYPE_CHECKING:
    from .base import ApiViewSet

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LONGEST_KEY = 255
MAX_WAIT_SECONDS = 5.0
SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]([ -~]*[!-~])?$"}

STILL_IN_PROGRESS = f"Another request with this {HEADER} is still in progress. Try again in a few seconds."
OTHER_BODY = f"This {HEADER} was used for a request with another body. Repeat the first body, or use another key."
UNREADABLE = (
    f"A request with this {HEADER} was answered before, but its answer cannot be decrypted any more. Check what it "
    "did before you use another key."
)


def key_of(request: HttpRequest | Request) -> str | None:
    """Return the key in the header, or None. Raise ValidationError unless it is 1 to 255 printable characters."""
    key = request.headers.get(HEADER)
    if key is not None and not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise ValidationError({HEADER: [f"Give 1 to {LONGEST_KEY} printable ASCII characters."]})
    return key


def answer_once(view: ApiViewSet, key: str, act: Callable[..., Any], request: Request, **kwargs: Any) -> Any:
    """Answer a permitted request by ``act``, or as an earlier request of the same owner, route and key.

    Errors are stored too, except those of the server (5xx) and of rate limits (429). Raise Conflict for another body,
    and for a request that is still in progress after 5 seconds.
    """
    using = router.db_for_write(StoredAnswer)
    claimed = _new(view, request, key)
    digest = hashlib.sha256(json.dumps(request.data, sort_keys=True).encode()).hexdigest()
    with ExitStack() as stack:
        with _waiting(using):
            stack.enter_context(writing(using, StoredAnswer))
            with dialect_of(using).waiting_at_most(connections[using], MAX_WAIT_SECONDS):
                earlier = claimed.claim()
        if earlier is not None:
            return _repeated(earlier, digest)
        response = _act(view, using, act, request, kwargs)
        if isinstance(response, Response) and _is_storable(response.status_code):
            claimed.keep(json.dumps(_content(response, digest), cls=JSONEncoder))
        else:
            claimed.delete()
        return response


def _new(view: ApiViewSet, request: Request, key: str) -> StoredAnswer:
    api_key = request.auth
    if isinstance(api_key, ApiKey) and api_key.is_service_key:
        owner_id, caller = None, f"key {api_key.pk}"
    else:
        owner_id = view.owner.pk
        caller = f"owner {owner_id}"
    return StoredAnswer.of(caller, request.path.rstrip("/"), key, owner_id)


@contextmanager
def _waiting(using: str) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        if is_lock_timeout(using, error) or is_deadlock(using, error):
            raise Conflict(STILL_IN_PROGRESS) from None
        raise


def _act(view: ApiViewSet, using: str, act: Callable[..., Any], request: Request, kwargs: dict[str, Any]) -> Any:
    try:
        with transaction.atomic(using=using):
            return act(request, **kwargs)
    except Exception as error:
        known = api_exception(error)
        # With ATOMIC_REQUESTS, an error rolls back the transaction of the whole request.
        if known is None or not _is_storable(known.status_code) or connections[using].settings_dict["ATOMIC_REQUESTS"]:
            raise
        return view.handle_exception(error)


def _is_storable(status: int) -> bool:
    return status < 500 and status != 429


def _content(response: Response, digest: str) -> dict[str, Any]:
    headers = {name: value for name, value in response.headers.items() if name.lower() != "content-type"}
    return {
        "request": digest,
        "status": response.status_code,
        "headers": headers,
        "content_type": response.content_type,
        "data": response.data,
    }


def _repeated(earlier: StoredAnswer, digest: str) -> Response:
    try:
        content = json.loads(earlier.content)
    except SecretUnreadableError:
        raise Conflict(UNREADABLE) from None
    if content["request"] != digest:
        raise Conflict(OTHER_BODY)
    headers = {**content["headers"], REPLAYED: "true"}
    return Response(content["data"], content["status"], headers=headers, content_type=content["content_type"])
