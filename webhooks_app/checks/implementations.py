"""Checks of settings that choose implementations by name or dotted path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from ..filters import BUILT_IN as BUILT_IN_OPERATORS
from ..filters import COMBINING, BaseOperator, make_operators
from ..owners import BaseOwners, owner_model
from ..retry import BUILT_IN as BUILT_IN_POLICIES
from ..retry import BaseRetryPolicy, make_policies
from ..signatures import BUILT_IN, make_signatures
from ..transport import BaseTransport
from ..transport.registry import DEFAULT, TRANSPORTS
from ..wake import BaseWake
from ..wake.registry import AUTO, WAKES
from .values_in_messages import short

MAX_NAME_LENGTH = 40
"""The length of a transport's name, which each worker stores."""


def _wake(name: str, wake: str) -> Iterator[checks.CheckMessage]:
    if wake != AUTO and (problem := _problem_with_class(WAKES.get(wake, wake), BaseWake)):
        names = ", ".join([AUTO, *WAKES])
        hint = f"Use one of {names}, or the dotted path of a BaseWake. django_tasks needs Django 6.0 or django-tasks."
        yield checks.Error(f"The {name} '{short(wake)}' {problem}.", hint=hint, id="webhooks_app.E023")


def _transport(name: str, transport: str) -> Iterator[checks.CheckMessage]:
    if problem := _problem_with_transport(TRANSPORTS.get(transport, transport)):
        hint = f"Use one of {', '.join(TRANSPORTS)}, or the dotted path of a BaseTransport."
        if transport in ("curl", "auto"):
            hint = f"Remove the setting: the default transport, {DEFAULT}, replaces curl and needs no other package."
        yield checks.Error(f"The {name} '{short(transport)}' {problem}.", hint=hint, id="webhooks_app.E007")


def _problem_with_transport(path: str) -> str:
    """Return the reason why a path does not lead to a usable transport; "" if it does."""
    if problem := _problem_with_class(path, BaseTransport):
        return problem
    found = import_string(path)
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        return f"does not implement {', '.join(missing)}"
    is_named = isinstance(found.name, str) and 1 <= len(found.name) <= MAX_NAME_LENGTH
    return "" if is_named else f"has no name; set its attribute name to 1 to {MAX_NAME_LENGTH} characters"


def _problem_with_class(path: str, base: type) -> str:
    """Return the reason why a path does not lead to a subclass of ``base``; "" if it does."""
    try:
        found = import_string(path)
    except Exception as error:  # noqa: BLE001 - importing a module may raise anything
        return f"cannot be imported: {short(error)}"
    return "" if isinstance(found, type) and issubclass(found, base) else f"is not a {base.__name__}"


def _signatures(name: str, signatures: Sequence[str]) -> Iterator[checks.CheckMessage]:
    hint = f"Choose from {', '.join(BUILT_IN)}, or add dotted paths of BaseSignatures with other names."
    return _implementations(name, signatures, make_signatures, BUILT_IN, hint=hint, check_id="webhooks_app.E020")


def _filter_operators(name: str, operators: Sequence[str]) -> Iterator[checks.CheckMessage]:
    known = {**BUILT_IN_OPERATORS, **dict.fromkeys(COMBINING)}
    hint = f"Choose from {', '.join(BUILT_IN_OPERATORS)}, or add dotted paths of BaseOperators with other names."
    return _implementations(
        name, operators, make_operators, known, hint=hint, check_id="webhooks_app.E024", problem=_problem_of_operator
    )


def _retry_policies(name: str, policies: Sequence[str]) -> Iterator[checks.CheckMessage]:
    hint = f"Choose from {', '.join(BUILT_IN_POLICIES)}, or add dotted paths of BaseRetryPolicies with other names."
    check_id = "webhooks_app.E008"
    if not policies:
        found = f"{name} is empty, but needs at least one policy; the first is the default."
        yield checks.Error(found, hint=hint, id=check_id)
    yield from _implementations(
        name, policies, make_policies, BUILT_IN_POLICIES, hint=hint, check_id=check_id, problem=_problem_of_policy
    )


def _implementations(
    name: str,
    paths: Sequence[str],
    make: Callable[[Sequence[str]], Mapping[str, Any]],
    built_in: Mapping[str, type | None],
    *,
    hint: str,
    check_id: str,
    problem: Callable[[Any], str] = lambda made: "",
) -> Iterator[checks.CheckMessage]:
    """Check that each path leads to a usable implementation, and that no two share a name."""
    found: set[str] = set()
    for path in paths:
        try:
            ((own, made),) = make((path,)).items()
            found.add(own)
            wrong = problem(made) or _taken(own, made, built_in)
        except Exception as error:  # noqa: BLE001 - importing a module may raise anything
            wrong = short(error)
        if wrong:
            yield checks.Error(f"{name}: {wrong}.", hint=hint, id=check_id)
            return
    if len(found) < len(paths):
        yield checks.Error(f"{name} has two entries with the same name.", hint=hint, id=check_id)


def _taken(name: str, made: Any, built_in: Mapping[str, type | None]) -> str:
    """Return the problem of an implementation that has the name of another, built-in one; "" if it has none."""
    if name not in built_in or type(made) is built_in[name]:
        return ""
    return f"{type(made).__qualname__} has the name {short(name)} of a built-in one"


def _problem_of_policy(policy: BaseRetryPolicy) -> str:
    problem = policy.problem()
    return f"{policy.name} {problem}" if problem else ""


def _problem_of_operator(operator: BaseOperator) -> str:
    is_operator = operator.name.startswith("$") and len(operator.name) > 1
    return "" if is_operator else f"{short(operator.name)!r} isn't the name of an operator: begin it with a dollar sign"


def _owner_model(name: str, model: str) -> Iterator[checks.CheckMessage]:
    try:
        owner_model()
    except ImproperlyConfigured as error:
        hint = 'Use the "app_label.ModelName" of an installed model, or remove the setting: owners are then users.'
        yield checks.Error(f"{short(error).rstrip('.')}.", hint=hint, id="webhooks_app.E030")


def _owners(name: str, path: str) -> Iterator[checks.CheckMessage]:
    try:
        found = import_string(path)
        is_policy = isinstance(found, type) and issubclass(found, BaseOwners)
        problem = found().problem() if is_policy else "it is not a subclass of BaseOwners"
    except ImproperlyConfigured:
        return  # Another check reports the invalid owner model.
    except Exception as error:  # noqa: BLE001 - importing a module may raise anything
        problem = f"it cannot be imported: {short(error)}"
    if problem:
        hint = (
            "Use webhooks_app.owners.UserOwners for users, webhooks_app.owners.MemberOwners for a model with members, "
            "or a subclass of webhooks_app.owners.BaseOwners."
        )
        found = f"{name} '{short(path)}' cannot be used: {problem}."
        yield checks.Error(found, hint=hint, id="webhooks_app.E031")


IMPLEMENTATION_CHECKS: Mapping[str, Callable[[str, Any], Iterator[checks.CheckMessage]]] = {
    "OWNER_MODEL": _owner_model,
    "OWNERS": _owners,
    "TRANSPORT": _transport,
    "WAKE": _wake,
    "RETRY_POLICIES": _retry_policies,
    "SIGNATURES": _signatures,
    "FILTER_OPERATORS": _filter_operators,
}
