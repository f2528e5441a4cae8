"""The pins of requirements-dev.txt."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINS = [Requirement(line) for line in (ROOT / "requirements-dev.txt").read_text().splitlines() if line[0] != "#"]


def test_every_requirement_is_pinned_to_one_version() -> None:
    assert [str(pin) for pin in PINS if not re.fullmatch(r"==[\w.]+", str(pin.specifier))] == []


def test_every_dependency_of_the_project_is_pinned() -> None:
    pinned = {canonicalize_name(pin.name) for pin in PINS}

    assert {canonicalize_name(wanted.name) for wanted in _wanted()} - pinned == {"django-webhooks-app"}


def test_the_pins_satisfy_the_dependencies_of_the_distribution() -> None:
    refused = [
        f"{wanted} is not met by {pin}"
        for wanted in _wanted()
        for pin in PINS
        if canonicalize_name(wanted.name) == canonicalize_name(pin.name)
        and not wanted.specifier.contains(str(pin.specifier).removeprefix("=="))
    ]

    assert refused == []


def _wanted() -> Iterator[Requirement]:
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    yield from (Requirement(line) for lines in lists for line in lines if isinstance(line, str))
