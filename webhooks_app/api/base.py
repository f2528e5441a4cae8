"""Shared behaviour of the API's view sets, independent of the host's settings for Django REST framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import translation
from rest_framework.authentication import BaseAuthentication
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied, UnsupportedMediaType, ValidationError
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.settings import DEFAULTS, APISettings
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from ..conf import LANGUAGE
from ..error_reports import hide_values
from ..exceptions import AlreadyInStateError
from ..models import ApiKey
from ..operations.actors import ApiCaller, ServiceCaller, access_of
from ..operations.rights import Right
from ..owners import Access, owners
from ..pages.actions import UserAction
from ..pages.listing import Asked, RowList
from ..tracing import configured_tracing
from .authentication import ApiKeyAuthentication, ApiThrottle, HasScope, other_authenticators
from .deprecations import DEPRECATED
from .errors import problem_response
from .fields import UNKNOWN_YET, unknown_names
from .idempotency import answer_once, key_of
from .lists import ListFilters, NewestFirstPagination
from .parsers import StrictJsonParser, measure_body
from .spans import answer_in_span

__all__ = ["Operation"]


class OwnSchema:
    """The schema of a view, with the interface of DRF's `ViewInspector`; None without drf-spectacular.

    drf-spectacular costs 10 MB and half a second, so that only a process that describes the API imports it.
    """

    def __get__(self, view: APIView | None, view_class: type[APIView]) -> Any:
        if not find_spec("drf_spectacular"):
            return None
        if view is None and "drf_spectacular" not in sys.modules:  # DRF reads the attributes of each class
            return self
        return _operation_schema().__get__(view, view_class)


@cache
def _operation_schema() -> Any:
    from .openapi import OperationSchema  # noqa: PLC0415

    return OperationSchema()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The request and the answer of one action; read by the permission, the view and the documentation."""

    answer: type[BaseSerializer[Any]] | None = None
    scope: str = ""
    request: type[Any] | None = None
    """The serializer of the body, or its type for pydantic."""
    body_required: bool = True
    status: int = 200
    many: bool = False
    batch: type[Any] | None = None
    """The body of several requests at once, as an alternative to ``request``."""
    batch_answer: type[BaseSerializer[Any]] | None = None
    probes: bool = False
    """Whether it sends a request at once. That of an action is known."""
    action: UserAction | None = None
    """The action that it performs, if it is one on a row."""
    run: Callable[..., Any] | None = None
    """What performs it instead of the action's own operation, with the fields of the body as arguments."""
    answers_with_result: bool = False
    """Whether the answer has what the action has made, not its row."""
    right: Right | None = None
    """The right that the operation requires, if ``scope`` is not enough to know it. That of an action is known."""
    stores_answer: bool = True
    """Whether the answer to a POST request is stored for its ``Idempotency-Key``."""

    def __post_init__(self) -> None:
        if self.action is not None:
            object.__setattr__(self, "right", self.action.right)
            object.__setattr__(self, "probes", self.action.sends)
            object.__setattr__(self, "run", self.run or self.action.operation)
        if self.right is not None and not self.scope:
            object.__setattr__(self, "scope", self.right.scope)


class JsonRenderer(JSONRenderer):
    strict = True
    ensure_ascii = False
    compact = True


class HeaderNegotiation(DefaultContentNegotiation):
    """Negotiate by headers alone, without ``?format=…``; compare a body's media type exactly."""

    settings: Any = SimpleNamespace(URL_FORMAT_OVERRIDE=None)

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        media_type = request.content_type.partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == media_type), None)


_OWN_SETTINGS: Any = {"EXCEPTION_HANDLER": problem_response, "FORMAT_SUFFIX_KWARG": None}


class ApiView(APIView):
    """A view with its own policies. A host changes them in a subclass rather than in its settings."""

    authentication_classes: Sequence[type[BaseAuthentication]] = (ApiKeyAuthentication,)
    permission_classes: Sequence[type[BasePermission]] = (HasScope,)
    throttle_classes: Sequence[type[BaseThrottle]] = (ApiThrottle,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JsonRenderer,)
    parser_classes: Sequence[type[BaseParser]] = (StrictJsonParser,)
    content_negotiation_class: type[BaseContentNegotiation] = HeaderNegotiation
    versioning_class = None
    metadata_class = None
    settings = APISettings(_OWN_SETTINGS, DEFAULTS)

    def get_authenticators(self) -> list[BaseAuthentication]:
        """Return those of the class, the key by default, then those of ``WEBHOOKS_API_AUTHENTICATION``."""
        return [*super().get_authenticators(), *(other_authenticators() if self.authentication_classes else ())]

    @property
    def actor(self) -> ApiCaller | ServiceCaller:
        """The caller as an actor of operations. Raise PermissionDenied if the caller has no owner."""
        api_key = self.request.auth
        if not isinstance(api_key, ApiKey):
            return ApiCaller(account=self.request.user, owner=self.owner)
        name = self.request.user.get_username()
        if api_key.is_service_key:
            return ServiceCaller(account=api_key.user, name=name, scopes=frozenset(api_key.scopes))
        return ApiCaller(account=api_key.user, owner=self.owner, name=name, scopes=frozenset(api_key.scopes))

    @cached_property
    def owner(self) -> Any:
        """The caller's owner. Raise PermissionDenied if there is none."""
        api_key = self.request.auth
        owner = api_key.owner if isinstance(api_key, ApiKey) else owners().for_request(self.request)
        if owner is None:
            raise PermissionDenied("This account acts for no owner, or more than one. Use an API key of the owner.")
        if not isinstance(api_key, ApiKey) and Access.READ not in access_of(self.request.user, [owner])[owner.pk]:
            raise PermissionDenied("You may not view the webhooks of this account.")
        return owner

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer, within a span if this process traces."""
        tracing, answer = configured_tracing(), partial(self.answer_in_english, request, *args, **kwargs)
        return answer() if tracing is None else answer_in_span(tracing, self, request, answer)

    def answer_in_english(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer in English, because some parts of an answer are not translated."""
        with translation.override(LANGUAGE):
            response: Any = self.respond(request, *args, **kwargs)
            response.headers["Content-Language"] = LANGUAGE
            return response.render() if hasattr(response, "render") else response

    def respond(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        hide_values(request)
        return super().initialize_request(request, *args, **kwargs)


class ApiViewSet(ApiView, GenericViewSet[Any]):
    """A view set described by its ``operations``.

    Objects are found through ``get_queryset()`` or ``owned()``, which hide those of other owners.
    """

    filter_backends = (ListFilters,)
    pagination_class = NewestFirstPagination
    schema: Any = OwnSchema()
    http_method_names = ("get", "post", "patch", "delete", "head")
    lookup_value_regex = "[^/]+"
    listed: RowList | None = None
    """The list whose filters the address has."""
    lookup_filter = ""
    """The filter whose value is in the address."""
    asked: Asked
    tag = ""
    operations: ClassVar[Mapping[str, Operation]] = {}
    table: ClassVar[Mapping[str, UserAction]] = {}
    """The actions on a row. Those with a meaning get a route, and an operation unless ``operations`` has one."""
    record: ClassVar[type[BaseSerializer[Any]]]
    """The answer of an action: its row."""
    post: Any
    """The called action, bound by Django REST framework."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        documented = {name: each for name, each in cls.table.items() if each.meaning}
        own = {name: Operation(action=each, answer=cls.record) for name, each in documented.items()}
        cls.operations = {**own, **cls.operations}
        for name, each in documented.items():
            if not hasattr(cls, name):
                setattr(cls, name, _performing(name, each.meaning))

    @property
    def operation(self) -> Operation | None:
        """The called operation; None for a method without a handler."""
        if self.action in (None, "metadata"):
            return None
        try:
            return self.operations[self.action]
        except KeyError:
            # Refuse all keys, rather than allow all of them, until the action has a scope.
            name = type(self).__name__
            raise ImproperlyConfigured(f"{name}.operations has no {self.action!r}; describe that action.") from None

    @property
    def operation_id(self) -> str:
        """The name of the called operation in the OpenAPI document."""
        return f"{self.tag.lower().replace(' ', '_')}_{self.action}"

    @property
    def default_response_headers(self) -> dict[str, str]:
        deprecation = DEPRECATED.get(self.operation_id)
        return {
            **super().default_response_headers,
            "Cache-Control": "no-store, private",
            "Vary": "Authorization",
            **(deprecation.headers if deprecation else {}),
        }

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        _check_charset(request)
        super().initial(request, *args, **kwargs)
        _check_query(request)
        if self.operation and (unknown := unknown_names(request.query_params, self.query_parameters(), "parameter")):
            raise ValidationError(unknown)
        if self.operation and request.method in ("POST", "PATCH"):
            measure_body(request._request, self.max_body_bytes)  # noqa: SLF001 - DRF's way to the request of Django
            # Read the body now, so that a bad body is refused even by operations that ignore it.
            body = request.data
            if self.operation.request is None and (unknown := unknown_names(body, (), "field")):
                raise ValidationError(unknown)
            self.authorize_body(request)
            if request.method == "POST":
                self._prepare_post(request)

    def authorize_body(self, request: Request) -> None:
        """Raise PermissionDenied if the caller lacks a scope that depends on the body."""

    def _prepare_post(self, request: Request) -> None:
        key = key_of(request)
        if key is None or self.operation is None or not self.operation.stores_answer:
            return
        if self.operation.right is not None:
            # An earlier answer may contain a secret, so the caller must have the right now.
            self.actor.require(self.operation.right, self.owner.pk)
        # Django REST framework binds the action to the method of the view in the same way.
        self.post = partial(answer_once, self, key, self.post)

    @property
    def max_body_bytes(self) -> int:
        """The maximum size of a request body."""
        return max(getattr(parser, "max_body_bytes", 0) for parser in self.get_parsers())

    def get_queryset(self) -> QuerySet[Any]:
        return self.owned(super().get_queryset())

    def owned(self, queryset: Any) -> QuerySet[Any]:
        """Limit a queryset to the caller's objects, as owners may see them. All views of the API use this method."""
        owned: QuerySet[Any] = queryset.owned_by(self.owner).for_owner()
        return owned

    def find(self, pk: str, queryset: QuerySet[Any] | None = None) -> Any:
        """Return the caller's object with this identifier. Raise Http404."""
        return get_object_or_404(self.get_queryset() if queryset is None else queryset, pk=pk)

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        assert self.operation is not None
        assert self.operation.answer is not None
        return self.operation.answer

    def validated(self, instance: Any = None) -> dict[str, Any]:
        """Return the valid fields of the body, which may change ``instance``. Raise ValidationError."""
        assert self.operation is not None
        assert self.operation.request is not None
        context = {**self.get_serializer_context(), "read_only": partial(self._read_only, instance)}
        serializer = self.operation.request(data=self.request.data, context=context)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def _read_only(self, instance: Any) -> Mapping[str, Any]:
        if instance is not None:
            return dict(self.get_serializer(instance).data)
        # Only a record that the request creates has the fields of the answer.
        answer: Any = self.get_serializer()
        return dict.fromkeys(answer.fields, UNKNOWN_YET) if self.action == "create" else {}

    def query_parameters(self) -> set[str]:
        """Return the names of the query parameters of the called operation, as the documentation lists them."""
        if self.operation is None or not self.operation.many:
            return set()
        described: list[Any] = [backend() for backend in self.filter_backends]
        described += [self.paginator] if self.paginator is not None else []
        return {each["name"] for source in described for each in source.get_schema_operation_parameters(self)}

    def answer(self, instance: Any, headers: Mapping[str, str] | None = None) -> Response:
        assert self.operation is not None
        return Response(self.get_serializer(instance).data, status=self.operation.status, headers=dict(headers or {}))

    def perform(self, pk: str, **given: Any) -> Response:
        """Perform the called operation on a row, and answer with the row, even if it was in that state already."""
        assert self.operation is not None
        assert self.operation.run is not None
        run = partial(self.operation.run, self.find(pk), actor=self.actor, **given)
        if self.operation.answers_with_result:
            return self.answer(run())
        with suppress(AlreadyInStateError):
            run()
        return self.answer(run.args[0])

    def hides_rows(self) -> bool:
        """Return True if the caller may not view some of the owner's rows."""
        return False

    def answer_page(self, rows: Any, **given: str) -> Response:
        """Answer with a page of the filtered rows. ``given`` are filters whose values are in the address."""
        if self.listed is not None:
            self.asked = ListFilters().asked(self.request, self, given)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


def _performing(name: str, meaning: str) -> Callable[..., Response]:
    """Return the method of an action, with its route and its documentation."""

    def run(self: ApiViewSet, request: Request, **kwargs: str) -> Response:
        assert self.operation is not None
        given = self.validated() if self.operation.request else {}
        return self.perform(kwargs[self.lookup_url_kwarg or "pk"], **given)

    run.__name__, run.__doc__ = name, meaning
    return action(detail=True, methods=["post"], url_path=name.replace("_", "-"))(run)


def _check_charset(request: HttpRequest | Request) -> None:
    # Checked before the query is read, because Django also decodes the query with the body's charset.
    charset = request.content_params.get("charset", "utf-8") if request.content_params else "utf-8"
    if charset.lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("", "Only UTF-8 is accepted.")


def _check_query(request: Request) -> None:
    for name, values in request.query_params.lists():
        if any("\0" in text for text in (name, *values)):
            raise ValidationError({name.replace("\0", "\\0"): ["The value contains NUL."]})
