"""Checks of the app's own settings: names, types and ranges, and their consistency."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from django.conf import settings as django_settings
from django.core import checks
from django.utils.translation import gettext, gettext_lazy, ngettext

from ..conf import CHECKS_TAG, MAX_DAYS, PREFIX, RECORD_SECONDS, problem_with_lease, setting_types, settings
from .contents import CONTENT_CHECKS
from .registration import did_you_mean, number_as_text, range_hint, register, thousands

DAY_SECONDS = 86_400

REQUEST_BYTES = 4096
"""Space for the other fields of a request that emits an event."""

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
    "FAILING_NOTICE_MINUTES": (0, 7 * DAY_SECONDS / 60),
    "AUTO_DISABLE_AFTER_DAYS": (0.01, 365),
    "AUTO_DISABLE_MIN_DELIVERIES": (1, 1_000_000),
    "AUTO_DISABLE_MIN_SPAN_HOURS": (0, 8760),
    "RECOVERY_DAYS": (0.01, 365),
    "ATTEMPT_RETENTION_DAYS": (1, MAX_DAYS),
    "EVENT_RETENTION_DAYS": (1, MAX_DAYS),
    "AUDIT_RETENTION_DAYS": (1, MAX_DAYS),
}

TYPE_HINTS: Mapping[Any, Any] = {
    bool: gettext_lazy("Use True or False."),
    int: gettext_lazy("Use an integer."),
    float: gettext_lazy("Use a number."),
    str: gettext_lazy("Use a string."),
    (Sequence, str): gettext_lazy("Use a list of strings."),
    (Sequence, float): gettext_lazy("Use a list of numbers."),
    (Mapping, str, int): gettext_lazy("Use a dictionary of strings and integers."),
    (Mapping, str, float): gettext_lazy("Use a dictionary of strings and numbers."),
}


@register(CHECKS_TAG)
def check_names(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return a warning for each unknown setting with a name similar to the app's settings."""
    known = setting_types()
    messages: list[checks.CheckMessage] = []
    for name in dir(django_settings):
        if not _looks_like_ours(name, known):
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.7)
        hint = did_you_mean(near) or gettext("Remove it, or rename it if it belongs to your project.")
        found = gettext("Unknown setting %(name)s: it has no effect.") % {"name": name}
        messages.append(checks.Warning(found, hint=hint, id="webhooks_app.W001"))
    return messages


@register(CHECKS_TAG)
def check_values(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return an error for each setting with an invalid value."""
    problems = (problem_with(name.removeprefix(PREFIX)) for name in setting_types())
    return [problem for problem in problems if problem is not None]


def problem_with(name: str) -> checks.CheckMessage | None:
    """Return the first problem with the value of a setting, named without the prefix."""
    full_name, value = PREFIX + name, getattr(settings, name)
    expected = setting_types()[full_name]
    if not _is_of_type(value, expected):
        return _wrong_type(full_name, value, expected)
    if name in RANGES:
        return next(_out_of_range(full_name, value, *RANGES[name]), None)
    check = CONTENT_CHECKS.get(name)
    return next(check(full_name, value), None) if check else None


@register(CHECKS_TAG)
def check_lease(**kwargs: Any) -> list[checks.CheckMessage]:
    if problem_with("LEASE_SECONDS") or problem_with("TIMEOUT_SECONDS") or not (problem := problem_with_lease()):
        return []
    hint = gettext("Use at least %(number)s seconds.") % {
        "number": thousands(settings.TIMEOUT_SECONDS + RECORD_SECONDS)
    }
    return [checks.Error(problem, hint=hint, id="webhooks_app.E010")]


@register(CHECKS_TAG)
def check_emit_body(**kwargs: Any) -> list[checks.CheckMessage]:
    if problem_with("EMIT_BODY_BYTES") or problem_with("MAX_ENVELOPE_BYTES"):
        return []
    least = settings.MAX_ENVELOPE_BYTES + REQUEST_BYTES
    if least <= settings.EMIT_BODY_BYTES:
        return []
    problem = gettext("WEBHOOKS_EMIT_BODY_BYTES is %(number)s, too small for an event with the largest envelope.") % {
        "number": thousands(settings.EMIT_BODY_BYTES)
    }
    hint = gettext("Use at least %(least)s, or reduce WEBHOOKS_MAX_ENVELOPE_BYTES (%(largest)s).") % {
        "least": thousands(least),
        "largest": thousands(settings.MAX_ENVELOPE_BYTES),
    }
    return [checks.Error(problem, hint=hint, id="webhooks_app.E040")]


@register(CHECKS_TAG)
def check_auto_disable(**kwargs: Any) -> list[checks.CheckMessage]:
    if problem_with("AUTO_DISABLE_AFTER_DAYS") or problem_with("AUTO_DISABLE_MIN_SPAN_HOURS"):
        return []
    hours, days = settings.AUTO_DISABLE_MIN_SPAN_HOURS, settings.AUTO_DISABLE_AFTER_DAYS
    if hours <= days * 24:
        return []
    problem = ngettext(
        "WEBHOOKS_AUTO_DISABLE_MIN_SPAN_HOURS is %(hours)s, more than the %(days)s day after which webhooks are "
        "disabled.",
        "WEBHOOKS_AUTO_DISABLE_MIN_SPAN_HOURS is %(hours)s, more than the %(days)s days after which webhooks are "
        "disabled.",
        1 if days == 1 else 2,
    ) % {"hours": thousands(hours), "days": thousands(days)}
    hint = gettext("Use at most %(hours)s hours, or raise WEBHOOKS_AUTO_DISABLE_AFTER_DAYS.")
    return [checks.Error(problem, hint=hint % {"hours": thousands(days * 24)}, id="webhooks_app.E014")]


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
    # Not isinstance(): a lazy object imitates the class of its value.
    found = type(value)
    if expected is bool or found is bool:
        return expected is found
    return issubclass(found, (int, float) if expected is float else expected)


def _wrong_type(name: str, value: Any, expected: Any) -> checks.CheckMessage:
    # Without the value, which may be a key or a proxy's password.
    found = gettext("%(name)s is of type %(type)s.")
    if isinstance(value, list | tuple):
        found = gettext("%(name)s is of type %(type)s with items of type %(types)s.")
    types = ", ".join(sorted({type(item).__name__ for item in value})) if isinstance(value, list | tuple) else ""
    origin = get_origin(expected)
    key = (origin, *get_args(expected)) if origin else expected
    problem = found % {"name": name, "type": type(value).__name__, "types": types}
    return checks.Error(problem, hint=str(TYPE_HINTS[key]), id="webhooks_app.E001")


def _out_of_range(name: str, value: float, least: float, most: float) -> Iterator[checks.CheckMessage]:
    if not least <= value <= most:
        found = gettext("%(name)s is %(value)s.") % {"name": name, "value": number_as_text(value)}
        yield checks.Error(found, hint=range_hint(least, most), id="webhooks_app.E002")
