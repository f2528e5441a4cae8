"""Findings of the doctor and their levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The result of one examination; ``hint`` describes the fix."""

    name: str
    level: Level
    found: str
    hint: str = ""


def worst(findings: Sequence[Finding]) -> Level:
    """Return the highest level among the findings."""
    levels = {finding.level for finding in findings}
    return next((level for level in (Level.ERROR, Level.WARNING) if level in levels), Level.OK)


def ok(name: str, found: str) -> Finding:
    return Finding(name=name, level=Level.OK, found=found)


def warn(name: str, found: str, hint: str) -> Finding:
    return Finding(name=name, level=Level.WARNING, found=found, hint=hint)


def fail(name: str, found: str, hint: str) -> Finding:
    return Finding(name=name, level=Level.ERROR, found=found, hint=hint)
