"""The layers that import-linter enforces are those of CONTRIBUTING.md."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.only_on("sqlite")

ROOT = Path(__file__).parents[2]


def enforced() -> list[set[str]]:
    """Return the modules of each layer in the configuration of import-linter, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [set(re.findall(r"\w+", layer)) for layer in layers]


def documented() -> list[set[str]]:
    """Return the modules of each row in the table of layers, from the top."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("\n| layer | contents |\n")[2].partition("\n\n")[0]
    return [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[1:]]


def test_the_documented_layers_are_the_enforced_ones() -> None:
    assert documented() == enforced()
