"""The tables in the README: results of the latest recorded runs, each between two marks."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import machine
from .report import ratios_first, text_of
from .scenario import Figures, Variant

README = Path(__file__).with_name("README.md")


def keep(
    name: str,
    summary: str,
    variants: Sequence[Variant],
    results: Mapping[str, Figures],
    *,
    note: str,
    readme: Path = README,
) -> None:
    """Write a table to the README. It replaces that of an earlier run, or follows the others."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    section = f"{begin}\n{_section(name, summary, variants, results, note)}{end}\n"
    text = readme.read_text()
    pattern = re.compile(f"{re.escape(begin)}\n.*{re.escape(end)}\n", re.DOTALL)
    readme.write_text(pattern.sub(lambda _: section, text) if pattern.search(text) else f"{text}\n{section}")


def _section(name: str, summary: str, variants: Sequence[Variant], results: Mapping[str, Figures], note: str) -> str:
    today = dt.datetime.now(dt.UTC).date()
    lines = [
        f"### {name}",
        "",
        f"{summary[0].upper()}{summary[1:]}.",
        "",
        "| variant | figure | reached | target |",
        "|---|---|---:|---:|",
    ]
    for variant in variants:
        for figure in ratios_first(results.get(variant.label, {})):
            target = str(variant.targets.get(figure, ""))
            lines.append(f"| {variant.label} | `{figure}` | {text_of(results[variant.label][figure])} | {target} |")
    about = machine.description().replace("\n", "  \n")
    how = f"`python -m benchmarks {name} --record` in commit {machine.COMMIT}"
    return "\n".join([*lines, "", f"{how}, {today}, {note}; {about}", ""])
