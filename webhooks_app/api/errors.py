"""Errors of the API as problem documents (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import responses as reason_phrases
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import NON_FIELD_ERRORS, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, JsonResponse
from django.utils import translation
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from ..conf import LANGUAGE
from ..exceptions import LimitsUnavailableError, RateLimitedError, WebhookStateError
from ..operations.rights import AccessDeniedError
from ..protocol.json_data import dotted

MEDIA_TYPE = "application/problem+json"
WHOLE_BODY = "non_field_errors"
API_NAMES = {NON_FIELD_ERRORS: WHOLE_BODY, "event_types": "events"}
"""The API's names of fields that have other names in the models."""


class Conflict(exceptions.APIException):
    status_code = HTTPStatus.CONFLICT


class Unavailable(exceptions.APIException):
    status_code = HTTPStatus.SERVICE_UNAVAILABLE


class TooManyRequests(exceptions.Throttled):
    """The answer to a request over a rate limit. Unlike the base class, it names the limit."""

    def __init__(self, error: RateLimitedError) -> None:
        super().__init__()
        self.detail = exceptions.ErrorDetail(str(error), self.default_code)
        self.wait = error.wait_seconds
        self.limit = error.limit


class LengthRequired(exceptions.APIException):
    status_code = HTTPStatus.LENGTH_REQUIRED
    default_detail = "Send the body with a Content-Length, not in chunks."


class BodyTooLarge(exceptions.APIException):
    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_detail = "The body is too large."


def problem_document(status: int, detail: str = "", errors: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a problem document; ``errors`` maps fields to lists of messages, as ``_flat`` yields them."""
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": reason_phrases.get(status, "Error"),
        "status": int(status),
    }
    if detail:
        problem["detail"] = detail
    if errors:
        problem["errors"] = errors
    return problem


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """Turn an exception into a response. Log an unexpected one, and hide its details."""
    known = api_exception(error)
    if known is None:
        return _answer_unexpected(error, context)
    set_rollback()
    problem = problem_document(known.status_code, *_detail_and_errors(known))
    if isinstance(known, TooManyRequests):
        problem["limit"] = known.limit
    return Response(
        problem,
        status=known.status_code,
        headers=_headers(known),
        content_type=MEDIA_TYPE,
    )


@csrf_exempt
@login_not_required
def not_found(request: HttpRequest, *args: Any, **kwargs: Any) -> JsonResponse:
    """Answer a request to an unknown URL."""
    with translation.override(LANGUAGE):
        detail = str(exceptions.NotFound.default_detail)
    return JsonResponse(
        problem_document(HTTPStatus.NOT_FOUND, detail),
        status=HTTPStatus.NOT_FOUND,
        content_type=MEDIA_TYPE,
        headers={"Content-Language": LANGUAGE},
        json_dumps_params={"separators": (",", ":")},
    )


def api_exception(error: Exception) -> exceptions.APIException | None:
    """Return the API's exception for an expected error; None for an unexpected one."""
    match error:
        case exceptions.APIException():
            return error
        case Http404():
            # Without the message, so that another owner's id looks like an unknown one.
            return exceptions.NotFound()
        case PermissionDenied():
            return exceptions.PermissionDenied(str(error) if isinstance(error, AccessDeniedError) else None)
        case DjangoValidationError():
            return exceptions.ValidationError(_errors_by_field(error))
        case WebhookStateError():
            return Conflict(str(error))
        case RateLimitedError():
            return TooManyRequests(error)
        case LimitsUnavailableError():
            return Unavailable(str(error))
        case RequestDataTooBig():
            return BodyTooLarge()
        case SuspiciousOperation():
            return exceptions.ParseError()
    return None


def _errors_by_field(error: DjangoValidationError) -> dict[str, Any]:
    by_field = error.message_dict if hasattr(error, "error_dict") else {NON_FIELD_ERRORS: error.messages}
    return {API_NAMES.get(field, field): messages for field, messages in by_field.items()}


def _detail_and_errors(error: exceptions.APIException) -> tuple[str, dict[str, Any] | None]:
    if not isinstance(error.detail, dict | list):
        return str(error.detail), None
    errors = dict(_flat(error.detail))
    if list(errors) == [WHOLE_BODY]:
        return " ".join(errors[WHOLE_BODY]), errors
    return f"Invalid: {', '.join(errors)}.", errors


def _flat(detail: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield each field with its messages; a nested field is named by its path, such as ``events[0]``."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            is_whole = name == WHOLE_BODY and path
            yield from _flat(inner, path if is_whole else (*path, name))
    elif any(isinstance(item, Mapping | list) for item in detail):
        for place, inner in enumerate(detail):
            yield from _flat(inner, (*path, place)) if inner else ()
    else:
        yield dotted(path) or WHOLE_BODY, [str(message) for message in detail]


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return headers


def _answer_unexpected(error: Exception, context: Mapping[str, Any]) -> Response:
    """Log and report an exception as Django does for one outside the API, the test client included."""
    request = getattr(context.get("request"), "_request", None)
    got_request_exception.send(sender=type(context.get("view")), request=request)
    set_rollback()
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    response = Response(problem_document(status), status=status, content_type=MEDIA_TYPE)
    path = getattr(request, "path", "")
    log_response("%s: %s", status.phrase, path, response=response, request=request, exception=error)
    return response
