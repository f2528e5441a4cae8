"""The contract of a scenario: a new one is one new file in ``scenarios``, found by itself."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .progress import Progress

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach on two cores with everything on the same machine."""

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
    """One world in which a scenario is measured, and what is expected there."""

    label: str
    database: str = "postgresql"
    broker: str = "redis"
    transport: str = "curl"
    workers: int = 1
    contestant: str = "ours"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Django that differ from those of every scenario."""
    targets: Mapping[str, Target] = field(default_factory=dict)


class BaseScenario(abc.ABC):
    """One thing that is measured: in which worlds, with which options, and how."""

    name: ClassVar[str]
    summary: ClassVar[str]
    variants: ClassVar[Sequence[Variant]]
    runs: ClassVar[int] = 3
    options: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    """Name of an option of the command line → its default and its help."""
    quick: ClassVar[Mapping[str, Any]] = {}
    """The options of a quick look, which proves that the scenario works rather than what it measures."""

    in_all: ClassVar[Mapping[str, Any]] = {}
    """The options where all scenarios are run, of one that would take very long."""

    @abc.abstractmethod
    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        """Measure once, in a world that is up, and leave the database as empty as it was."""

    def compare(self, results: Mapping[str, Figures]) -> None:  # noqa: B027 - most have nothing to add
        """Add to the figures of each variant, by label, what only shows beside the others."""

    def keep(self, results: Mapping[str, Figures]) -> None:  # noqa: B027 - most have nothing to add
        """Record more of the figures of each variant, by label, than the table in the README."""

    def chosen_variants(self, arguments: argparse.Namespace) -> list[Variant]:
        """Return the variants that the options leave; an option that none has makes a variant of its own."""
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
    from . import scenarios as package  # noqa: PLC0415 - the modules in it import this one

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found = [scenario() for scenario in BaseScenario.__subclasses__()]
    return {scenario.name: scenario for scenario in sorted(found, key=lambda scenario: scenario.name)}
