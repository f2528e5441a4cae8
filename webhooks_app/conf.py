"""The ``WEBHOOKS_*`` settings with their types and defaults, and the implementations that they choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from ipaddress import ip_network
from types import MappingProxyType
from typing import Any, get_type_hints
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.utils.translation import gettext

from . import __version__
from .exceptions import InvalidEndpointError
from .filters import FILTER_OPERATORS, BaseOperator, Filter
from .reasons import ReasonText
from .retry import RETRY_POLICIES, BaseRetryPolicy, name_in, unpack_policy
from .signatures import SIGNATURES, BaseSignature
from .transport import BaseTransport, Endpoint, TransportOptions, make_transport, parse_endpoint

PREFIX = "WEBHOOKS_"

LANGUAGE = "en"
"""The language of logs, exceptions, stored rows, commands and the API."""

checks_language = ContextVar("checks_language", default=LANGUAGE)
"""The language of the messages of system checks. The console sets its own."""

CHECKS_TAG, BEAT_TAG = "webhooks", "webhooks_beat"
"""The tags of system checks. The doctor runs those of beat's schedule separately."""

MAX_DAYS = 36_500
"""Upper bound of retention periods and expiries in days."""

PERIODS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86_400),
}
"""The periods of rates, in seconds."""

SECRETS = frozenset(("ENCRYPTION_KEYS", "METRICS_TOKEN", "EGRESS_PROXY"))
"""Settings hidden from every page. The URL of a proxy may contain a password."""

MAX_AGENT_LENGTH = 120

RECORD_SECONDS = 5
"""Minimum difference between the lease and the timeout, for starting and recording the attempt."""


class Settings:
    """The current settings, read on every access so that ``override_settings`` works.

    ``settings.TIMEOUT_SECONDS`` is the project's ``WEBHOOKS_TIMEOUT_SECONDS`` or the default below.
    """

    # Owners
    OWNER_MODEL: str = ""
    OWNERS: str = "webhooks_app.owners.UserOwners"

    # Destinations
    ALLOW_HTTP: bool = False
    ALLOWED_NETWORKS: Sequence[str] = ()
    REFUSED_NETWORKS: Sequence[str] = ()
    EGRESS_PROXY: str = ""
    EGRESS_ADDRESSES: Sequence[str] = ()
    USER_AGENT: str = ""
    CA_BUNDLE: str = ""

    # Wake-ups
    WAKE: str = "auto"

    # Delivery
    TRANSPORT: str = "native"
    TIMEOUT_SECONDS: float = 30.0
    RETRY_POLICIES: Sequence[str] = ("specification", "extended")
    RETRY_NOTICES: bool = True
    MAX_IN_FLIGHT: int = 10_000
    MAX_IN_FLIGHT_PER_WEBHOOK: int = 50
    BATCH_SIZE: int = 500
    LEASE_SECONDS: float = 45.0
    SWEEP_SECONDS: float = 5.0
    REPLAY_RATE: float = 100.0
    SEND_TRACEPARENT: bool = False

    # Events and webhooks
    BUILTIN_EVENT_TYPES: bool = False
    MAX_ENVELOPE_BYTES: int = 256 * 1024
    EMIT_BODY_BYTES: int = 1024 * 1024
    MAX_WEBHOOKS_PER_OWNER: int = 100
    ENCRYPTION_KEYS: Sequence[str] = ()
    SECRET_OVERLAP_SECONDS: int = 86_400
    SIGNATURES: Sequence[str] = ("native", "standard", "standard-ed25519")
    ORDERS: Sequence[str] = ("none", "webhook", "key")
    RECOVERIES: Sequence[str] = ("manual", "automatic")
    FILTER_OPERATORS: Sequence[str] = (
        *("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin"),
        *("$exists", "$startsWith", "$endsWith"),
    )

    # Failing webhooks
    AUTO_DISABLE: bool = True
    AUTO_DISABLE_AFTER_DAYS: float = 5.0
    AUTO_DISABLE_MIN_DELIVERIES: int = 10
    AUTO_DISABLE_MIN_SPAN_HOURS: float = 12.0
    FAILING_NOTICE_MINUTES: float = 15.0
    HEALTH: Mapping[str, float] = MappingProxyType({})
    RECOVERY_DAYS: float = 3.0
    HEALTH_MAILS: bool = True
    SITE_URL: str = ""

    # Customers' pages
    PORTAL_CSP: str = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'"
    )
    PORTAL_FRAME_ANCESTORS: str = "'none'"

    # REST API
    API_AUTHENTICATION: Sequence[str] = ()

    # Rate limits: requests/period
    API_RATE: str = "120/min"
    EMIT_RATE: str = "12000/min"
    TEST_RATE: str = "10/min"
    VERIFICATION_RATE: str = "5/min"
    PROBE_RATE: str = "60/min"
    ADDRESS_PROBE_RATE: str = "300/min"

    # Retention
    ATTEMPT_RETENTION_DAYS: int = 30
    EVENT_RETENTION_DAYS: int = 90
    AUDIT_RETENTION_DAYS: int = 365
    RETENTION_DAYS_BY_TYPE: Mapping[str, int] = MappingProxyType({})

    # Metrics
    METRICS_TOKEN: str = ""

    def __getattribute__(self, name: str) -> Any:
        if name.isupper():
            return getattr(django_settings, PREFIX + name, getattr(Settings, name))
        return super().__getattribute__(name)


settings = Settings()


def problem_with_lease() -> str:
    """Return a message if the lease is too short for the timeout, otherwise ""."""
    lease, timeout = settings.LEASE_SECONDS, settings.TIMEOUT_SECONDS
    if lease >= timeout + RECORD_SECONDS:
        return ""
    return gettext(
        "WEBHOOKS_LEASE_SECONDS is %(lease)s, too short for WEBHOOKS_TIMEOUT_SECONDS (%(timeout)s): "
        "an attempt would count as lost while it is still in flight."
    ) % {"lease": f"{lease:g}", "timeout": f"{timeout:g}"}


def parse_rate(rate: str) -> tuple[int, int]:
    """Return the number and the seconds of a rate such as ``"120/min"``."""
    number, _, period = rate.partition("/")
    return int(number), PERIODS[period]


@cache
def setting_types() -> dict[str, Any]:
    """Return the annotated type of each setting by full name."""
    return {PREFIX + name: hint for name, hint in get_type_hints(Settings).items() if name.isupper()}


def known_signatures() -> Mapping[str, BaseSignature]:
    """Return all usable schemes by name: the built-in ones, and those in the setting."""
    return SIGNATURES.named((*SIGNATURES.built_in, *settings.SIGNATURES))


def offered_signatures() -> Mapping[str, BaseSignature]:
    """Return the schemes that owners may choose, by name."""
    return SIGNATURES.named(tuple(settings.SIGNATURES))


def known_policies() -> Mapping[str, BaseRetryPolicy]:
    """Return all usable retry policies by name: those in the setting, the default first, then the built-in ones."""
    return RETRY_POLICIES.named((*settings.RETRY_POLICIES, *RETRY_POLICIES.built_in))


def offered_policies() -> Mapping[str, BaseRetryPolicy]:
    """Return the retry policies that owners may choose, by name."""
    return RETRY_POLICIES.named(tuple(settings.RETRY_POLICIES))


def retry_policy(name: str = "") -> BaseRetryPolicy:
    """Return the policy with this name. Without a name, or if it is no longer configured, return the default policy."""
    policies = known_policies()
    return policies.get(name) or next(iter(policies.values()))


def policy_of_delivery(stored: str) -> BaseRetryPolicy:
    """Return the policy for the text that a delivery has, made by ``pack_policy``."""
    name = name_in(stored)
    return unpack_policy(stored, known_policies().get(name)) or retry_policy()


def offered_orders() -> Sequence[str]:
    """Return the orders that a webhook's owner may choose."""
    return tuple(settings.ORDERS)


def offered_recoveries() -> Sequence[str]:
    """Return the kinds of recovery that a webhook's owner may choose, the default first."""
    return tuple(settings.RECOVERIES)


def known_operators() -> Mapping[str, BaseOperator]:
    """Return all usable filter operators by name: the built-in ones, and those in the setting."""
    return FILTER_OPERATORS.named((*FILTER_OPERATORS.built_in, *settings.FILTER_OPERATORS))


def offered_operators() -> Mapping[str, BaseOperator]:
    """Return the filter operators that owners may use, by name."""
    return FILTER_OPERATORS.named(tuple(settings.FILTER_OPERATORS))


def parse_filter(source: Any) -> Filter:
    """Return a filter that may contain any usable operator. Raise InvalidFilterError."""
    return Filter(source, known_operators())


def check_endpoint(url: str) -> Endpoint:
    """Return the parts of a URL that is allowed as an endpoint. Raise InvalidEndpointError."""
    options = transport_options()
    try:
        return parse_endpoint(
            url,
            allow_http=options.allow_http,
            allowed_networks=options.allowed_networks,
            refused_networks=options.refused_networks,
        )
    except InvalidEndpointError as error:
        reason = error.args[0]
        # A customer cannot follow the advice for developers.
        if django_settings.DEBUG and reason.code == "url_local_name" and "localhost" in reason.params["host"]:
            raise InvalidEndpointError(error.rule, ReasonText("url_localhost", **reason.params)) from None
        raise


def user_agent() -> str:
    """Return the User-Agent of all requests: the setting, or else the site's host, if it is known, and the app."""
    return _user_agent(settings.USER_AGENT, settings.SITE_URL)


@cache
def _user_agent(chosen: str, site_url: str) -> str:
    if is_user_agent(chosen):
        return chosen
    app = f"webhooks_app/{'.'.join(__version__.split('.')[:2])}"
    named = f"{urlsplit(site_url).hostname or ''} {app}".strip()
    return named if is_user_agent(named) else app


def is_user_agent(text: str) -> bool:
    """Return True if a header and the log of attempts can hold the text."""
    return 0 < len(text) <= MAX_AGENT_LENGTH and text.isascii() and text.isprintable() and text == text.strip()


def transport_options() -> TransportOptions:
    return TransportOptions(
        allow_http=settings.ALLOW_HTTP,
        allowed_networks=tuple(ip_network(network) for network in settings.ALLOWED_NETWORKS),
        refused_networks=tuple(ip_network(network) for network in settings.REFUSED_NETWORKS),
        proxy=settings.EGRESS_PROXY,
        ca_bundle=settings.CA_BUNDLE,
        max_in_flight=settings.MAX_IN_FLIGHT,
        probes_per_second=_per_second(settings.ADDRESS_PROBE_RATE),
    )


def _per_second(rate: str) -> float | None:
    if not rate:
        return None
    number, seconds = parse_rate(rate)
    return number / seconds


def configured_transport() -> BaseTransport:
    return make_transport(settings.TRANSPORT, transport_options())
