"""Checks of the contents of single settings: implementations, networks, keys, files, rates, retention."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from ipaddress import ip_network
from typing import Any, TypeAlias

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext

from ..conf import MAX_AGENT_LENGTH, MAX_DAYS, PERIODS, is_user_agent, user_agent
from ..encryption import DERIVED, is_key
from ..event_types import registry
from ..filters import FILTER_OPERATORS
from ..implementations import Implementations
from ..models.health import Thresholds
from ..models.webhook import Order, Recovery
from ..owners import OWNERS, owner_model
from ..retry import RETRY_POLICIES
from ..signatures import SIGNATURES
from ..transport import DEFAULT, TRANSPORTS
from ..transport.sender import parse_proxy
from ..wake.base import AUTO, WAKES
from .registration import did_you_mean, number_as_text, range_hint, short

MAX_RATE_DIGITS = 9

MAKE_A_KEY = "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"

MAKE_A_RANDOM_ONE = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"

MIN_TOKEN_LENGTH = 16

MAX_THRESHOLD = 1_000_000

Check: TypeAlias = Callable[[str, Any], Iterator[checks.CheckMessage]]

ANCESTOR = r"(?:'self'|https?://(?:\*\.)?[A-Za-z0-9.\[\]:-]+)"

FRAME_ANCESTORS = re.compile(rf"'none'|{ANCESTOR}(?: {ANCESTOR})*")

SITE = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(?:/[A-Za-z0-9._~%/-]*)?")

TOKEN = re.compile(rf"[A-Za-z0-9._~+/-]{{{MIN_TOKEN_LENGTH},}}=*")


def _one_of(found: Implementations[Any], names: Sequence[str]) -> str:
    hint = gettext("Use one of %(names)s, or the dotted path of a %(base)s.")
    return hint % {"names": ", ".join(names), "base": found.base.__name__}


def _unusable(name: str, problem: object) -> str:
    return gettext("%(name)s cannot be used: %(problem)s.") % {"name": name, "problem": short(problem)}


def _transport(name: str, transport: str) -> Iterator[checks.CheckMessage]:
    if problem := TRANSPORTS.problem(transport):
        hint = _one_of(TRANSPORTS, [*TRANSPORTS.built_in])
        if transport in ("curl", "auto"):
            hint = gettext(
                "Remove the setting: the default transport, %(name)s, replaces curl and needs no other package."
            ) % {"name": DEFAULT}
        yield checks.Error(_unusable(name, problem), hint=hint, id="webhooks_app.E007")


def _wake(name: str, wake: str) -> Iterator[checks.CheckMessage]:
    if wake != AUTO and (problem := WAKES.problem(wake)):
        needs = gettext("django_tasks needs Django 6.0 or django-tasks.")
        hint = f"{_one_of(WAKES, [AUTO, *WAKES.built_in])} {needs}"
        yield checks.Error(_unusable(name, problem), hint=hint, id="webhooks_app.E023")


def _some_of(found: Implementations[Any], check_id: str, *, required: bool = False) -> Check:
    """Return the check of a setting that offers implementations, the default first if it is ``required``."""

    def check(name: str, offered: Sequence[str]) -> Iterator[checks.CheckMessage]:
        hint = gettext("Choose from %(names)s, or add dotted paths of a %(base)s with another name.") % {
            "names": ", ".join(found.built_in),
            "base": found.base.__name__,
        }
        if required and not offered:
            empty = gettext("%(name)s is empty, but needs at least one entry; the first is the default.")
            yield checks.Error(empty % {"name": name}, hint=hint, id=check_id)
        elif problem := found.problem_of_all(offered):
            yield checks.Error(_unusable(name, problem), hint=hint, id=check_id)

    return check


def _authentication(name: str, paths: Sequence[str]) -> Iterator[checks.CheckMessage]:
    from rest_framework.authentication import BaseAuthentication  # noqa: PLC0415 - projects without the API need none

    known = Implementations(BaseAuthentication, {})
    hint = gettext("Use dotted paths of subclasses of %(base)s.") % {"base": "BaseAuthentication"}
    for problem in filter(None, map(known.problem, paths)):
        yield checks.Error(_unusable(name, problem), hint=hint, id="webhooks_app.E044")


def _owner_model(name: str, model: str) -> Iterator[checks.CheckMessage]:
    try:
        owner_model()
    except ImproperlyConfigured as error:
        hint = gettext(
            'Use the "app_label.ModelName" of an installed model, or remove the setting: owners are then users.'
        )
        yield checks.Error(f"{short(error).rstrip('.')}.", hint=hint, id="webhooks_app.E030")


def _owners(name: str, path: str) -> Iterator[checks.CheckMessage]:
    if problem := OWNERS.problem(path):
        hint = gettext(
            "Use webhooks_app.owners.UserOwners for users, webhooks_app.owners.MemberOwners for a model with members, "
            "or a subclass of webhooks_app.owners.BaseOwners."
        )
        yield checks.Error(_unusable(f"{name} '{short(path)}'", problem), hint=hint, id="webhooks_app.E031")


def _networks(name: str, networks: Sequence[str]) -> Iterator[checks.CheckMessage]:
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            hint = gettext('Use networks such as "10.0.0.0/8" or "fd00::/8", or single addresses.')
            found = gettext("%(name)s contains an invalid network: %(problem)s.")
            yield checks.Error(found % {"name": name, "problem": short(error)}, hint=hint, id="webhooks_app.E003")


def _encryption_keys(name: str, keys: Sequence[str]) -> Iterator[checks.CheckMessage]:
    for number, key in enumerate(keys, start=1):
        if key != DERIVED and not is_key(key):
            hint = gettext('Generate one: %(command)s. "%(derived)s" stands for the key derived from SECRET_KEY.')
            yield checks.Error(
                gettext("Key %(number)s of %(name)s is not a Fernet key.") % {"number": number, "name": name},
                hint=hint % {"command": MAKE_A_KEY, "derived": DERIVED},
                id="webhooks_app.E004",
            )


def _egress_proxy(name: str, url: str) -> Iterator[checks.CheckMessage]:
    try:
        parse_proxy(url or "http://none:1")
    except ValueError:
        hint = gettext("Use the form http://[user:password@]host:port, or an empty string for no proxy.")
        found = gettext("%(name)s is not a valid proxy URL.") % {"name": name}
        yield checks.Error(found, hint=hint, id="webhooks_app.E005")


def _agent(name: str, text: str) -> Iterator[checks.CheckMessage]:
    if text and not is_user_agent(text):
        found = gettext(
            "%(name)s is '%(text)s', which is longer than %(number)s characters, or contains characters that a header "
            "cannot contain."
        ) % {"name": name, "text": short(text), "number": MAX_AGENT_LENGTH}
        hint = gettext('Use a name such as "%(example)s", or an empty string for the default, "%(default)s".')
        example = {"example": "Acme-Webhooks/1.0 (+https://docs.acme.example)", "default": user_agent()}
        yield checks.Error(found, hint=hint % example, id="webhooks_app.E045")


def _ca_bundle(name: str, path: str) -> Iterator[checks.CheckMessage]:
    try:
        if path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        hint = gettext("Use the path of a readable PEM file with the additional certificate authorities to trust.")
        problem = error.strerror if isinstance(error, OSError) else error
        yield checks.Error(_unusable(f"{name} ('{short(path)}')", problem), hint=hint, id="webhooks_app.E006")


def _orders(name: str, orders: Sequence[str]) -> Iterator[checks.CheckMessage]:
    unknown = [order for order in orders if order not in Order.values]
    if unknown or len(set(orders)) < len(orders):
        problem = gettext("%(name)s contains an order twice.")
        if unknown:
            problem = gettext("%(name)s has an unknown order, '%(order)s'.")
        hint = gettext("Choose from %(names)s.") % {"names": ", ".join(Order.values)}
        order = short(unknown[0]) if unknown else ""
        yield checks.Error(problem % {"name": name, "order": order}, hint=hint, id="webhooks_app.E025")


def _recoveries(name: str, recoveries: Sequence[str]) -> Iterator[checks.CheckMessage]:
    hint = gettext("Choose from %(names)s.") % {"names": ", ".join(Recovery.values)}
    if unknown := [recovery for recovery in recoveries if recovery not in Recovery.values]:
        problem = gettext("%(name)s has an unknown recovery, '%(recovery)s'.")
        found = problem % {"name": name, "recovery": short(unknown[0])}
        yield checks.Error(found, hint=hint, id="webhooks_app.E041")
    elif len(set(recoveries)) < len(recoveries):
        yield checks.Error(
            gettext("%(name)s contains a recovery twice.") % {"name": name}, hint=hint, id="webhooks_app.E041"
        )
    elif Recovery.MANUAL not in recoveries:
        hint = gettext("Add manual. Webhooks with an order need it.")
        yield checks.Error(gettext("%(name)s lacks manual.") % {"name": name}, hint=hint, id="webhooks_app.E041")


def _rate(name: str, rate: str) -> Iterator[checks.CheckMessage]:
    number, _, period = rate.partition("/")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_RATE_DIGITS
    is_rate = is_number and int(number) > 0 and period in PERIODS
    if rate and not is_rate:
        hint = gettext('Use the form "120/min", with one of %(periods)s, or an empty string for no limit.')
        found = gettext("%(name)s is '%(rate)s', which is not a valid rate.") % {"name": name, "rate": short(rate)}
        yield checks.Error(found, hint=hint % {"periods": ", ".join(PERIODS)}, id="webhooks_app.E009")


def _metrics_token(name: str, token: str) -> Iterator[checks.CheckMessage]:
    if token and not TOKEN.fullmatch(token):
        found = gettext(
            "%(name)s is shorter than %(number)s characters, or contains characters invalid in a Bearer token."
        ) % {"name": name, "number": MIN_TOKEN_LENGTH}
        hint = gettext("Generate one: %(command)s.") % {"command": MAKE_A_RANDOM_ONE}
        yield checks.Error(found, hint=hint, id="webhooks_app.E016")


def _policy_of_pages(name: str, policy: str) -> Iterator[checks.CheckMessage]:
    if not policy.isascii() or not policy.isprintable():
        found = gettext("%(name)s contains a line break, or a character that a header cannot contain.")
        hint = gettext("Write the policy in one line of ASCII, or set an empty string to send no header.")
        yield checks.Error(found % {"name": name}, hint=hint, id="webhooks_app.E033")
    if "frame-ancestors" in policy.lower():
        hint = gettext("Remove it from the policy, and set WEBHOOKS_PORTAL_FRAME_ANCESTORS.")
        found = gettext("%(name)s contains frame-ancestors.") % {"name": name}
        yield checks.Error(found, hint=hint, id="webhooks_app.E033")


def _frame_ancestors(name: str, ancestors: str) -> Iterator[checks.CheckMessage]:
    if not FRAME_ANCESTORS.fullmatch(ancestors):
        found = gettext(
            "%(name)s is '%(found)s', but must be 'none' with its quotes, or origins separated by spaces."
        ) % {"name": name, "found": short(ancestors)}
        hint = gettext(
            """Use "'none'", "'self'", or origins such as "https://app.example.com https://*.example.org"."""
        )
        yield checks.Error(found, hint=hint, id="webhooks_app.E034")


def _site_url(name: str, url: str) -> Iterator[checks.CheckMessage]:
    if url and not SITE.fullmatch(url):
        found = gettext("%(name)s is '%(url)s', which is not the address of a site.")
        hint = gettext('Use the form "https://app.example.com", or an empty string for mails without links.')
        yield checks.Error(found % {"name": name, "url": short(url)}, hint=hint, id="webhooks_app.E042")


def _retention_by_type(name: str, days_by_type: Mapping[str, int]) -> Iterator[checks.CheckMessage]:
    for event_type, days in days_by_type.items():
        if not 1 <= days <= MAX_DAYS:
            found = gettext("%(name)s keeps '%(type)s' for %(days)s days.")
            numbers = {"name": name, "type": short(event_type), "days": number_as_text(days)}
            yield checks.Error(found % numbers, hint=range_hint(1, MAX_DAYS), id="webhooks_app.E015")
    for event_type in days_by_type:
        if event_type not in registry.names():
            near = get_close_matches(event_type, registry.names(), n=1)
            hint = did_you_mean(near) or gettext("Remove the entry unless events of a former type are still kept.")
            found = gettext("%(name)s contains the unknown event type '%(type)s'.")
            yield checks.Warning(found % {"name": name, "type": short(event_type)}, hint=hint, id="webhooks_app.W010")


def _thresholds(name: str, limits: Mapping[str, float]) -> Iterator[checks.CheckMessage]:
    known = [field.name for field in fields(Thresholds)]
    for key, value in limits.items():
        if key not in known:
            found = gettext("%(name)s has the unknown key '%(key)s'.") % {"name": name, "key": short(key)}
            hint = did_you_mean(get_close_matches(key, known, n=1)) or gettext("Choose from %(names)s.") % {
                "names": ", ".join(known)
            }
            yield checks.Error(found, hint=hint, id="webhooks_app.E043")
        elif not 0 <= value <= MAX_THRESHOLD:
            found = gettext("%(name)s has the value %(value)s for '%(key)s'.")
            numbers = {"name": name, "key": key, "value": number_as_text(value)}
            yield checks.Error(found % numbers, hint=range_hint(0, MAX_THRESHOLD), id="webhooks_app.E043")


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
    "RECOVERIES": _recoveries,
    "EGRESS_PROXY": _egress_proxy,
    "EGRESS_ADDRESSES": _networks,
    "USER_AGENT": _agent,
    "CA_BUNDLE": _ca_bundle,
    "API_AUTHENTICATION": _authentication,
    "API_RATE": _rate,
    "EMIT_RATE": _rate,
    "TEST_RATE": _rate,
    "VERIFICATION_RATE": _rate,
    "PROBE_RATE": _rate,
    "ADDRESS_PROBE_RATE": _rate,
    "HEALTH": _thresholds,
    "RETENTION_DAYS_BY_TYPE": _retention_by_type,
    "METRICS_TOKEN": _metrics_token,
    "SITE_URL": _site_url,
    "PORTAL_CSP": _policy_of_pages,
    "PORTAL_FRAME_ANCESTORS": _frame_ancestors,
}
