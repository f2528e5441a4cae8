"""The tables in the README: results of the latest recorded runs, each between two marks."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import machine
from .report import ratios_first, text_of
from .scenario import BaseScenario, Figures, Variant

README = Path(__file__).with_name("README.md")


def keep(
    scenario: BaseScenario,
    variants: Sequence[Variant],
    results: Mapping[str, Figures],
    *,
    note: str,
    readme: Path = README,
) -> None:
    """Write a table to the README. It replaces that of an earlier run, or follows the others."""
    begin, end = f"<!-- {scenario.name} -->", f"<!-- end of {scenario.name} -->"
    section = f"{begin}\n{_section(scenario, variants, results, note)}{end}\n"
    text = readme.read_text()
    pattern = re.compile(f"{re.escape(begin)}\n.*{re.escape(end)}\n", re.DOTALL)
    readme.write_text(pattern.sub(lambda _: section, text) if pattern.search(text) else f"{text}\n{section}")


def _section(scenario: BaseScenario, variants: Sequence[Variant], results: Mapping[str, Figures], note: str) -> str:
    today = dt.datetime.now(dt.UTC).date()
    lines = [
        f"### {scenario.name}",
        "",
        f"{scenario.summary[0].upper()}{scenario.summary[1:]}.",
        "",
        "| variant | figure | reached | target |",
        "|---|---|---:|---:|",
    ]
    for variant in variants:
        for name in ratios_first(results.get(variant.label, {})):
            target = str(variant.targets.get(name, ""))
            lines.append(f"| {variant.label} | `{name}` | {text_of(results[variant.label][name])} | {target} |")
    about = machine.description().replace("\n", "  \n")
    how = f"`python -m benchmarks {scenario.name} --record` in commit {machine.COMMIT}"
    return "\n".join([*lines, "", f"{how}, {today}, {note}; {about}", ""])
