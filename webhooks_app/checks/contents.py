"""Checks of the contents of single settings: implementations, networks, keys, files, rates, retention."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_network
from typing import Any, TypeAlias

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from ..conf import MAX_DAYS, PERIODS
from ..encryption import DERIVED, is_key
from ..event_types import registry
from ..filters import FILTER_OPERATORS
from ..implementations import Implementations
from ..models.order import Order
from ..owners import OWNERS, owner_model
from ..retry import RETRY_POLICIES
from ..signatures import SIGNATURES
from ..transport import DEFAULT, TRANSPORTS
from ..transport.sender import parse_proxy
from ..wake.base import AUTO, WAKES
from .registration import as_text, short

MAX_RATE_DIGITS = 9

MAKE_A_KEY = "Generate one: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'."

MAKE_A_RANDOM_ONE = "Generate one: python -c 'import secrets; print(secrets.token_urlsafe(32))'."

MIN_TOKEN_LENGTH = 16

Check: TypeAlias = Callable[[str, Any], Iterator[checks.CheckMessage]]

ANCESTOR = r"(?:'self'|https?://(?:\*\.)?[A-Za-z0-9.\[\]:-]+)"

FRAME_ANCESTORS = re.compile(rf"'none'|{ANCESTOR}(?: {ANCESTOR})*")

TOKEN = re.compile(rf"[A-Za-z0-9._~+/-]{{{MIN_TOKEN_LENGTH},}}=*")


def _one_of(found: Implementations[Any], names: Sequence[str]) -> str:
    return f"Use one of {', '.join(names)}, or the dotted path of a {found.base.__name__}."


def _transport(name: str, transport: str) -> Iterator[checks.CheckMessage]:
    if problem := TRANSPORTS.problem(transport):
        hint = _one_of(TRANSPORTS, [*TRANSPORTS.built_in])
        if transport in ("curl", "auto"):
            hint = f"Remove the setting: the default transport, {DEFAULT}, replaces curl and needs no other package."
        yield checks.Error(f"{name} cannot be used: {short(problem)}.", hint=hint, id="webhooks_app.E007")


def _wake(name: str, wake: str) -> Iterator[checks.CheckMessage]:
    if wake != AUTO and (problem := WAKES.problem(wake)):
        hint = f"{_one_of(WAKES, [AUTO, *WAKES.built_in])} django_tasks needs Django 6.0 or django-tasks."
        yield checks.Error(f"{name} cannot be used: {short(problem)}.", hint=hint, id="webhooks_app.E023")


def _some_of(found: Implementations[Any], check_id: str, *, required: bool = False) -> Check:
    """Return the check of a setting that offers implementations, the default first if it is ``required``."""
    hint = f"Choose from {', '.join(found.built_in)}, or add dotted paths of a {found.base.__name__} with another name."

    def check(name: str, offered: Sequence[str]) -> Iterator[checks.CheckMessage]:
        if required and not offered:
            empty = f"{name} is empty, but needs at least one entry; the first is the default."
            yield checks.Error(empty, hint=hint, id=check_id)
        elif problem := found.problem_of_all(offered):
            yield checks.Error(f"{name} cannot be used: {short(problem)}.", hint=hint, id=check_id)

    return check


def _owner_model(name: str, model: str) -> Iterator[checks.CheckMessage]:
    try:
        owner_model()
    except ImproperlyConfigured as error:
        hint = 'Use the "app_label.ModelName" of an installed model, or remove the setting: owners are then users.'
        yield checks.Error(f"{short(error).rstrip('.')}.", hint=hint, id="webhooks_app.E030")


def _owners(name: str, path: str) -> Iterator[checks.CheckMessage]:
    if problem := OWNERS.problem(path):
        hint = (
            "Use webhooks_app.owners.UserOwners for users, webhooks_app.owners.MemberOwners for a model with members, "
            "or a subclass of webhooks_app.owners.BaseOwners."
        )
        yield checks.Error(
            f"{name} '{short(path)}' cannot be used: {short(problem)}.", hint=hint, id="webhooks_app.E031"
        )


def _networks(name: str, networks: Sequence[str]) -> Iterator[checks.CheckMessage]:
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            hint = 'Use networks such as "10.0.0.0/8" or "fd00::/8", or single addresses.'
            yield checks.Error(
                f"{name} contains an invalid network: {short(error)}.", hint=hint, id="webhooks_app.E003"
            )


def _encryption_keys(name: str, keys: Sequence[str]) -> Iterator[checks.CheckMessage]:
    for number, key in enumerate(keys, start=1):
        if key != DERIVED and not is_key(key):
            hint = f'{MAKE_A_KEY} "{DERIVED}" stands for the key derived from SECRET_KEY.'
            yield checks.Error(f"Key {number} of {name} is not a Fernet key.", hint=hint, id="webhooks_app.E004")


def _egress_proxy(name: str, url: str) -> Iterator[checks.CheckMessage]:
    try:
        parse_proxy(url or "http://none:1")
    except ValueError:
        hint = "Use the form http://[user:password@]host:port, or an empty string for no proxy."
        yield checks.Error(f"{name} is not a valid proxy URL.", hint=hint, id="webhooks_app.E005")


def _ca_bundle(name: str, path: str) -> Iterator[checks.CheckMessage]:
    try:
        if path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        hint = "Use the path of a readable PEM file with the additional certificate authorities to trust."
        problem = error.strerror if isinstance(error, OSError) else error
        yield checks.Error(f"{name} ('{short(path)}') cannot be used: {problem}.", hint=hint, id="webhooks_app.E006")


def _orders(name: str, orders: Sequence[str]) -> Iterator[checks.CheckMessage]:
    unknown = [order for order in orders if order not in Order.values]
    if unknown or len(set(orders)) < len(orders):
        problem = f"has an unknown order, {short(unknown[0])!r}" if unknown else "contains an order twice"
        hint = f"Choose from {', '.join(Order.values)}."
        yield checks.Error(f"{name} {problem}.", hint=hint, id="webhooks_app.E025")


def _rate(name: str, rate: str) -> Iterator[checks.CheckMessage]:
    number, _, period = rate.partition("/")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_RATE_DIGITS
    is_rate = is_number and int(number) > 0 and period in PERIODS
    if rate and not is_rate:
        hint = f'Use the form "120/min", with one of {", ".join(PERIODS)}, or an empty string for no limit.'
        yield checks.Error(f"{name} is '{short(rate)}', which is not a valid rate.", hint=hint, id="webhooks_app.E009")


def _metrics_token(name: str, token: str) -> Iterator[checks.CheckMessage]:
    if token and not TOKEN.fullmatch(token):
        found = (
            f"{name} is shorter than {MIN_TOKEN_LENGTH} characters, or contains characters invalid in a Bearer token."
        )
        yield checks.Error(found, hint=MAKE_A_RANDOM_ONE, id="webhooks_app.E016")


def _policy_of_pages(name: str, policy: str) -> Iterator[checks.CheckMessage]:
    if not policy.isascii() or not policy.isprintable():
        found = f"{name} contains a line break, or a character that a header cannot contain."
        hint = "Write the policy in one line of ASCII, or set an empty string to send no header."
        yield checks.Error(found, hint=hint, id="webhooks_app.E033")
    if "frame-ancestors" in policy.lower():
        hint = "Remove it from the policy, and set WEBHOOKS_PORTAL_FRAME_ANCESTORS."
        yield checks.Error(f"{name} contains frame-ancestors.", hint=hint, id="webhooks_app.E033")


def _frame_ancestors(name: str, ancestors: str) -> Iterator[checks.CheckMessage]:
    if not FRAME_ANCESTORS.fullmatch(ancestors):
        found = f"{name} is '{short(ancestors)}', but must be 'none' with its quotes, or origins separated by spaces."
        hint = """Use "'none'", "'self'", or origins such as "https://app.example.com https://*.example.org"."""
        yield checks.Error(found, hint=hint, id="webhooks_app.E034")


def _retention_by_type(name: str, days_by_type: Mapping[str, int]) -> Iterator[checks.CheckMessage]:
    for event_type, days in days_by_type.items():
        if not 1 <= days <= MAX_DAYS:
            found = f"{name} keeps {short(event_type)!r} for {as_text(days)} days."
            yield checks.Error(found, hint=f"Use a value from 1 to {MAX_DAYS:,}.", id="webhooks_app.E015")
    for event_type in days_by_type:
        if event_type not in registry.names():
            near = get_close_matches(event_type, registry.names(), n=1)
            hint = (
                f"Did you mean {near[0]}?"
                if near
                else "Remove the entry unless events of a former type are still kept."
            )
            found = f"{name} contains the unknown event type {short(event_type)!r}."
            yield checks.Warning(found, hint=hint, id="webhooks_app.W010")


CONTENT_CHECKS: Mapping[str, Check] = {
    "OWNER_MODEL": _owner_model,
    "OWNERS": _owners,
    "TRANSPORT": _transport,
    "WAKE": _wake,
    "RETRY_POLICIES": _some_of(RETRY_POLICIES, "webhooks_app.E008", required=True),
    "SIGNATURES": _some_of(SIGNATURES, "webhooks_app.E020"),
    "FILTER_OPERATORS": _some_of(FILTER_OPERATORS, "webhooks_app.E024"),
    "ALLOWED_NETWORKS": _networks,
    "REFUSED_NETWORKS": _networks,
    "ENCRYPTION_KEYS": _encryption_keys,
    "ORDERS": _orders,
    "EGRESS_PROXY": _egress_proxy,
    "CA_BUNDLE": _ca_bundle,
    "API_RATE": _rate,
    "EMIT_RATE": _rate,
    "TEST_RATE": _rate,
    "VERIFICATION_RATE": _rate,
    "PROBE_RATE": _rate,
    "ADDRESS_PROBE_RATE": _rate,
    "RETENTION_DAYS_BY_TYPE": _retention_by_type,
    "METRICS_TOKEN": _metrics_token,
    "PORTAL_CSP": _policy_of_pages,
    "PORTAL_FRAME_ANCESTORS": _frame_ancestors,
}
