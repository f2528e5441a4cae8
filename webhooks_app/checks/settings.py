"""Checks of our own settings: their names, their types, their ranges, and what they say."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_network
from typing import Any, get_args, get_origin

from cryptography.fernet import Fernet
from django.conf import settings as django_settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from ..conf import PERIODS, PREFIX, RECORD_SECONDS, problem_with_lease, setting_types, settings
from ..encryption import DERIVED
from ..event_types import registry
from ..filters import BUILT_IN as BUILT_IN_OPERATORS
from ..filters import make_operators
from ..owners import BaseOwners, owner_model
from ..plurals import counted
from ..retry import BUILT_IN as BUILT_IN_POLICIES
from ..retry import make_policies
from ..signatures import BUILT_IN, make_signatures
from ..transport import BaseTransport
from ..transport.proxy import parse_proxy
from ..transport.registry import TRANSPORTS
from ..wake import BaseWake
from ..wake.registry import AUTO, WAKES

TAG = "webhooks"

DAY_SECONDS = 86_400
REQUEST_BYTES = 4096
"""The length of the other fields of a request that emits an event."""
MAX_DAYS = 36_500
MAX_RATE_DIGITS = 9
MAX_SHOWN = 200
MANY = 10**15
"""From here on a number says nothing more by its digits."""

RANGES: Mapping[str, tuple[float, float]] = {
    "TIMEOUT_SECONDS": (0.1, 3600),
    "MAX_IN_FLIGHT": (1, 100_000),
    "MAX_IN_FLIGHT_PER_WEBHOOK": (1, 100_000),
    "BATCH_SIZE": (1, 5000),
    "LEASE_SECONDS": (1, DAY_SECONDS),
    "SWEEP_SECONDS": (0.01, 3600),
    "REPLAY_RATE": (0.1, 10_000),
    "MAX_ENVELOPE_BYTES": (1024, 16 * 1024 * 1024),
    "EMIT_BODY_BYTES": (1024, 64 * 1024 * 1024),
    "MAX_WEBHOOKS_PER_OWNER": (1, 1_000_000),
    "SECRET_OVERLAP_SECONDS": (0, 7 * DAY_SECONDS),
    "AUTO_DISABLE_AFTER_DAYS": (0.01, 365),
    "AUTO_DISABLE_MIN_DELIVERIES": (1, 1_000_000),
    "AUTO_DISABLE_MIN_SPAN_HOURS": (0, 8760),
    "ATTEMPT_RETENTION_DAYS": (1, MAX_DAYS),
    "EVENT_RETENTION_DAYS": (1, MAX_DAYS),
    "AUDIT_RETENTION_DAYS": (1, MAX_DAYS),
}

MAKE_A_KEY = "Make one: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'."

MAKE_A_RANDOM_ONE = "Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'."
MIN_TOKEN_LENGTH = 16
TOKEN = re.compile(rf"[A-Za-z0-9._~+/-]{{{MIN_TOKEN_LENGTH},}}=*")

TYPE_HINTS: Mapping[Any, str] = {
    bool: "Give True or False.",
    int: "Give a whole number.",
    float: "Give a number.",
    str: "Give a string.",
    (Sequence, str): "Give a list of strings.",
    (Sequence, float): "Give a list of numbers.",
    (Mapping, str, int): "Give a dictionary of strings and whole numbers.",
}


@checks.register(TAG)
def check_names(**kwargs: Any) -> list[checks.CheckMessage]:
    """Find settings that look like ours and are none."""
    known = setting_types()
    messages: list[checks.CheckMessage] = []
    for name in dir(django_settings):
        if not _looks_like_ours(name, known):
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"Did you mean {near[0]}?" if near else "Remove it, or rename it if it is one of your own."
        messages.append(
            checks.Warning(f"There is no setting {name}: it has no effect.", hint=hint, id="webhooks_app.W001")
        )
    return messages


@checks.register(TAG)
def check_values(**kwargs: Any) -> list[checks.CheckMessage]:
    """Find settings of ours with a value that cannot be used."""
    problems = (problem_with(name.removeprefix(PREFIX)) for name in setting_types())
    return [problem for problem in problems if problem is not None]


def problem_with(name: str) -> checks.CheckMessage | None:
    """Return the first thing that is wrong with the value of a setting of ours, named without the prefix."""
    full_name, value = PREFIX + name, getattr(settings, name)
    expected = setting_types()[full_name]
    if not _is_of_type(value, expected):
        return _wrong_type(full_name, value, expected)
    if name in RANGES:
        return next(_out_of_range(full_name, value, *RANGES[name]), None)
    return next(CONTENT_CHECKS[name](full_name, value), None) if name in CONTENT_CHECKS else None


@checks.register(TAG)
def check_lease(**kwargs: Any) -> list[checks.CheckMessage]:
    if problem_with("LEASE_SECONDS") or problem_with("TIMEOUT_SECONDS") or not (problem := problem_with_lease()):
        return []
    hint = f"Give {settings.TIMEOUT_SECONDS + RECORD_SECONDS:g} seconds or more."
    return [checks.Error(problem, hint=hint, id="webhooks_app.E010")]


@checks.register(TAG)
def check_emit_body(**kwargs: Any) -> list[checks.CheckMessage]:
    if problem_with("EMIT_BODY_BYTES") or problem_with("MAX_ENVELOPE_BYTES"):
        return []
    least = settings.MAX_ENVELOPE_BYTES + REQUEST_BYTES
    if least <= settings.EMIT_BODY_BYTES:
        return []
    problem = (
        f"WEBHOOKS_EMIT_BODY_BYTES is {settings.EMIT_BODY_BYTES:,}, too small for an event of the largest envelope"
    )
    hint = f"Give {least:,} or more, or reduce WEBHOOKS_MAX_ENVELOPE_BYTES ({settings.MAX_ENVELOPE_BYTES:,})."
    return [checks.Error(f"{problem}.", hint=hint, id="webhooks_app.E040")]


@checks.register(TAG)
def check_auto_disable(**kwargs: Any) -> list[checks.CheckMessage]:
    if problem_with("AUTO_DISABLE_AFTER_DAYS") or problem_with("AUTO_DISABLE_MIN_SPAN_HOURS"):
        return []
    hours, days = settings.AUTO_DISABLE_MIN_SPAN_HOURS, settings.AUTO_DISABLE_AFTER_DAYS
    if hours <= days * 24:
        return []
    after = counted(days, "day")
    problem = f"WEBHOOKS_AUTO_DISABLE_MIN_SPAN_HOURS is {hours:g}, more than the {after} after which webhooks are"
    hint = f"Give at most {days * 24:g} hours, or raise WEBHOOKS_AUTO_DISABLE_AFTER_DAYS."
    return [checks.Error(f"{problem} disabled.", hint=hint, id="webhooks_app.E014")]


def _looks_like_ours(name: str, known: Collection[str]) -> bool:
    if name in known or "HOOK" not in name:
        return False
    return name.startswith(PREFIX) or bool(get_close_matches(name, known, n=1, cutoff=0.9))


def _is_of_type(value: Any, expected: Any) -> bool:
    if get_origin(expected) is Sequence:
        (item_type,) = get_args(expected)
        return isinstance(value, list | tuple) and all(_is_of_type(item, item_type) for item in value)
    if get_origin(expected) is Mapping:
        key_type, item_type = get_args(expected)
        return isinstance(value, Mapping) and all(
            _is_of_type(key, key_type) and _is_of_type(item, item_type) for key, item in value.items()
        )
    # By the type itself: a lazy object passes for what it stands for, until it is used.
    found = type(value)
    if expected is bool or found is bool:
        return expected is found
    return issubclass(found, (int, float) if expected is float else expected)


def _wrong_type(name: str, value: Any, expected: Any) -> checks.CheckMessage:
    # Without the value: it may be a key or a proxy's password.
    found = type(value).__name__
    if isinstance(value, list | tuple):
        found += f" with items of type {', '.join(sorted({type(item).__name__ for item in value}))}"
    origin = get_origin(expected)
    key = (origin, *get_args(expected)) if origin else expected
    return checks.Error(f"{name} is of type {found}.", hint=TYPE_HINTS[key], id="webhooks_app.E001")


def _out_of_range(name: str, value: float, least: float, most: float) -> Iterator[checks.CheckMessage]:
    if not least <= value <= most:
        hint = f"Give {least:,} to {most:,}."
        yield checks.Error(f"{name} is {_as_text(value)}.", hint=hint, id="webhooks_app.E002")


def _networks(name: str, networks: Sequence[str]) -> Iterator[checks.CheckMessage]:
    for network in networks:
        try:
            ip_network(network)
        except ValueError as error:
            hint = 'Write networks as in "10.0.0.0/8" or "fd00::/8", and single addresses as they are.'
            yield checks.Error(f"{name} holds what is no network: {_short(error)}.", hint=hint, id="webhooks_app.E003")


def _encryption_keys(name: str, keys: Sequence[str]) -> Iterator[checks.CheckMessage]:
    for number, key in enumerate(keys, start=1):
        if key == DERIVED:
            continue
        try:
            Fernet(key)
        except ValueError:
            hint = f'{MAKE_A_KEY} "{DERIVED}" stands for the one made from SECRET_KEY.'
            yield checks.Error(f"Key {number} of {name} is not a Fernet key.", hint=hint, id="webhooks_app.E004")


def _egress_proxy(name: str, url: str) -> Iterator[checks.CheckMessage]:
    try:
        parse_proxy(url or "http://none:1")
    except ValueError:
        hint = "Write it as http://[user:password@]host:port, or leave it empty for none."
        yield checks.Error(f"{name} is not the URL of a proxy.", hint=hint, id="webhooks_app.E005")


def _ca_bundle(name: str, path: str) -> Iterator[checks.CheckMessage]:
    try:
        if path:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        hint = "Name a readable PEM file with the certificates of the authorities to trust besides the system's."
        problem = error.strerror if isinstance(error, OSError) else error
        yield checks.Error(f"{name} ('{_short(path)}') cannot be used: {problem}.", hint=hint, id="webhooks_app.E006")


def _wake(name: str, wake: str) -> Iterator[checks.CheckMessage]:
    if wake == AUTO:
        return
    try:
        found = import_string(WAKES.get(wake, wake))
    except Exception as error:  # noqa: BLE001 - a module may raise anything while it is imported
        problem = f"cannot be imported: {_short(error)}"
    else:
        problem = "" if isinstance(found, type) and issubclass(found, BaseWake) else "is not a BaseWake"
    if problem:
        names = ", ".join([AUTO, *WAKES])
        hint = f"Give one of {names}, or the dotted path of a BaseWake; django_tasks needs Django 6.0 or django-tasks."
        yield checks.Error(f"The {name} '{_short(wake)}' {problem}.", hint=hint, id="webhooks_app.E023")


def _transport(name: str, transport: str) -> Iterator[checks.CheckMessage]:
    if transport == "auto":
        return
    try:
        found = import_string(TRANSPORTS.get(transport, transport))
    except Exception as error:  # noqa: BLE001 - a module may raise anything while it is imported
        problem = f"cannot be imported: {_short(error)}"
    else:
        problem = "" if isinstance(found, type) and issubclass(found, BaseTransport) else "is no BaseTransport"
    if problem:
        names = ", ".join(["auto", *TRANSPORTS])
        hint = f"Name one of {names}, or the dotted path of a transport of yours; curl needs the extra of that name."
        yield checks.Error(f"The {name} '{_short(transport)}' {problem}.", hint=hint, id="webhooks_app.E007")


def _signatures(name: str, signatures: Sequence[str]) -> Iterator[checks.CheckMessage]:
    hint = f"Name some of {', '.join(BUILT_IN)}, or dotted paths of BaseSignatures with other names."
    return _implementations(name, signatures, make_signatures, hint=hint, check_id="webhooks_app.E020")


def _filter_operators(name: str, operators: Sequence[str]) -> Iterator[checks.CheckMessage]:
    hint = f"Name some of {', '.join(BUILT_IN_OPERATORS)}, or dotted paths of BaseOperators with other names."
    return _implementations(name, operators, make_operators, hint=hint, check_id="webhooks_app.E024")


def _implementations(
    name: str, paths: Sequence[str], make: Callable[[Sequence[str]], Mapping[str, Any]], *, hint: str, check_id: str
) -> Iterator[checks.CheckMessage]:
    found: set[str] = set()
    for path in paths:
        try:
            found |= make((path,)).keys()
        except Exception as error:  # noqa: BLE001 - a module may raise anything while it is imported
            yield checks.Error(f"{name}: {_short(error)}.", hint=hint, id=check_id)
            return
    if len(found) < len(paths):
        yield checks.Error(f"{name} has two entries of one name.", hint=hint, id=check_id)


def _owner_model(name: str, model: str) -> Iterator[checks.CheckMessage]:
    try:
        owner_model()
    except ImproperlyConfigured as error:
        hint = 'Name an installed model as "app_label.ModelName"; without the setting, owners are users.'
        yield checks.Error(f"{_short(error).rstrip('.')}.", hint=hint, id="webhooks_app.E030")


def _owners(name: str, path: str) -> Iterator[checks.CheckMessage]:
    try:
        found = import_string(path)
        is_policy = isinstance(found, type) and issubclass(found, BaseOwners)
        problem = found().problem() if is_policy else "it is not a subclass of BaseOwners"
    except ImproperlyConfigured:
        return  # The check of the owner model says what is wrong.
    except Exception as error:  # noqa: BLE001 - a module may raise anything while it is imported
        problem = f"it cannot be imported: {_short(error)}"
    if problem:
        hint = (
            "Name webhooks_app.owners.UserOwners for users, webhooks_app.owners.MemberOwners for a model with members, "
            "or a subclass of webhooks_app.owners.BaseOwners."
        )
        found = f"{name} '{_short(path)}' cannot be used: {problem}."
        yield checks.Error(found, hint=hint, id="webhooks_app.E031")


def _retry_policies(name: str, policies: Sequence[str]) -> Iterator[checks.CheckMessage]:
    hint = f"Name one or more of {', '.join(BUILT_IN_POLICIES)}, or dotted paths of BaseRetryPolicies with other names."
    if not policies:
        yield checks.Error(f"{name} is empty; its first policy is the default.", hint=hint, id="webhooks_app.E008")
    found: set[str] = set()
    for policy in policies:
        try:
            made = make_policies((policy,))
            problems = [f"{each.name} {each.problem()}" for each in made.values() if each.problem()]
            found |= made.keys()
        except Exception as error:  # noqa: BLE001 - a module may raise anything while it is imported
            problems = [_short(error)]
        if problems:
            yield checks.Error(f"{name}: {problems[0]}.", hint=hint, id="webhooks_app.E008")
            return
    if len(found) < len(policies):
        yield checks.Error(f"{name} names one policy twice.", hint=hint, id="webhooks_app.E008")


def _rate(name: str, rate: str) -> Iterator[checks.CheckMessage]:
    number, _, period = rate.partition("/")
    is_number = number.isascii() and number.isdigit() and len(number) <= MAX_RATE_DIGITS
    is_rate = is_number and int(number) > 0 and period in PERIODS
    if rate and not is_rate:
        hint = f'Write it as "120/min", with one of {", ".join(PERIODS)}; an empty string sets no limit.'
        yield checks.Error(f"{name} is '{_short(rate)}', which is no rate.", hint=hint, id="webhooks_app.E009")


def _metrics_token(name: str, token: str) -> Iterator[checks.CheckMessage]:
    if token and not TOKEN.fullmatch(token):
        found = f"{name} is shorter than {MIN_TOKEN_LENGTH} characters, or has some that no Bearer token has."
        yield checks.Error(found, hint=MAKE_A_RANDOM_ONE, id="webhooks_app.E016")


def _retention_by_type(name: str, days_by_type: Mapping[str, int]) -> Iterator[checks.CheckMessage]:
    for event_type, days in days_by_type.items():
        if not 1 <= days <= MAX_DAYS:
            found = f"{name} keeps {_short(event_type)!r} for {_as_text(days)} days."
            yield checks.Error(found, hint=f"Give 1 to {MAX_DAYS:,}.", id="webhooks_app.E015")
    for event_type in days_by_type:
        if event_type not in registry.names():
            near = get_close_matches(event_type, registry.names(), n=1)
            hint = f"Did you mean {near[0]}?" if near else "Leave it only while events of a type that is gone are kept."
            found = f"{name} names {_short(event_type)!r}, which is no event type."
            yield checks.Warning(found, hint=hint, id="webhooks_app.W010")


def _as_text(number: Any) -> str:
    if abs(number) < MANY:
        return f"{number:,}"
    return str(number) if isinstance(number, float) else "an enormous number"


def _short(found: object) -> str:
    """Return a value, or what an error says of it, so that it fits into a message."""
    text = repr(str(found))[1:-1]
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


CONTENT_CHECKS: Mapping[str, Callable[[str, Any], Iterator[checks.CheckMessage]]] = {
    "OWNER_MODEL": _owner_model,
    "OWNERS": _owners,
    "ALLOWED_NETWORKS": _networks,
    "REFUSED_NETWORKS": _networks,
    "ENCRYPTION_KEYS": _encryption_keys,
    "EGRESS_PROXY": _egress_proxy,
    "CA_BUNDLE": _ca_bundle,
    "TRANSPORT": _transport,
    "WAKE": _wake,
    "RETRY_POLICIES": _retry_policies,
    "SIGNATURES": _signatures,
    "FILTER_OPERATORS": _filter_operators,
    "API_RATE": _rate,
    "EMIT_RATE": _rate,
    "TEST_RATE": _rate,
    "VERIFICATION_RATE": _rate,
    "PROBE_RATE": _rate,
    "ADDRESS_PROBE_RATE": _rate,
    "RETENTION_DAYS_BY_TYPE": _retention_by_type,
    "METRICS_TOKEN": _metrics_token,
}
