"""The contract of a scenario. Each is a module in ``scenarios``, which is imported automatically."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .progress import Progress

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Target:
    """The expected limit of a figure, with all processes on one machine of two cores."""

    limit: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.limit:,g}"


def at_least(limit: float) -> Target:
    return Target(limit)


def at_most(limit: float) -> Target:
    return Target(limit, at_most=True)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """An environment of a scenario: database, broker, transport and processes, with the targets there."""

    label: str
    database: str = "postgresql"
    broker: str = "redis"
    transport: str = "native"
    workers: int = 1
    contestant: str = "ours"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Django settings in addition to the common ones."""
    targets: Mapping[str, Target] = field(default_factory=dict)


class BaseScenario(abc.ABC):
    """A measurement with its variants and options."""

    name: ClassVar[str]
    summary: ClassVar[str]
    variants: ClassVar[Sequence[Variant]]
    runs: ClassVar[int] = 3
    max_load: ClassVar[float] = math.inf
    """The highest load of the machine before a run that may be recorded."""
    options: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Options of the command line: name → default and help."""
    quick: ClassVar[Mapping[str, Any]] = {}
    """Options for ``--quick``, which tests the scenario rather than the app."""

    in_all: ClassVar[Mapping[str, Any]] = {}
    """Options for a run of all scenarios, if the scenario would take too long."""

    @abc.abstractmethod
    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        """Measure once, with running servers. Leave the database empty."""

    def compare(self, results: Mapping[str, Figures]) -> None:  # noqa: B027 - optional
        """Add figures that depend on several variants. ``results`` is by label."""

    def keep(self, results: Mapping[str, Figures]) -> None:  # noqa: B027 - optional
        """Record figures elsewhere than in the README. ``results`` is by label."""

    def recorded_as(self, arguments: argparse.Namespace) -> str:
        """Return the name of the table in the README, with the options that change what is measured."""
        return self.name

    def chosen_variants(self, arguments: argparse.Namespace) -> list[Variant]:
        """Return the variants that match the options, or a new one if none of the app's does."""
        named = {
            name: value
            for name in ("database", "broker", "transport", "workers")
            if (value := getattr(arguments, name)) is not None
        }
        ours = [variant for variant in self.variants if variant.contestant == "ours"]
        chosen = [
            variant
            for variant in ours
            if all(getattr(variant, name) == value for name, value in named.items())
            and arguments.variant in variant.label
        ] or [dataclasses.replace(ours[0], **named, label=_label(named), targets={})]
        rivals = [
            dataclasses.replace(variant, database=chosen[0].database, broker=chosen[0].broker)
            for variant in self.variants
            if variant.contestant != "ours"
        ]
        only = arguments.only
        return [variant for variant in (*chosen, *rivals) if only is None or variant.contestant in only]


def _label(named: Mapping[str, Any]) -> str:
    words = [f"{value} processes" if name == "workers" else str(value) for name, value in named.items()]
    return ", ".join(words) or "as configured"


def scenarios() -> dict[str, BaseScenario]:
    """Return every scenario by name, in the order of the names."""
    from . import scenarios as package  # noqa: PLC0415 - its modules import this one

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found = [scenario() for scenario in BaseScenario.__subclasses__()]
    return {scenario.name: scenario for scenario in sorted(found, key=lambda scenario: scenario.name)}
