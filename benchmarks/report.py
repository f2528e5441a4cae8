"""The results of a scenario, as a table and as one line of JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from .scenario import BaseScenario, Figures, Variant

RATIOS = ("ratio_to_", "times_")


def medians(runs: Sequence[Figures]) -> Figures:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def print_table(
    scenario: BaseScenario,
    variants: Sequence[Variant],
    runs: Mapping[str, Sequence[Figures]],
    results: Mapping[str, Figures],
    *,
    note: str,
) -> None:
    """Print the median of each figure beside its target, and the range of its runs; ratios come first."""
    table = Table(title=f"{scenario.name}: {scenario.summary}", caption=note, title_justify="left")
    for heading in ("variant", "figure"):
        table.add_column(heading)
    for heading in ("median", "target", "lowest", "highest"):
        table.add_column(heading, justify="right")
    for variant in variants:
        if variant.label in results:
            _add(table, variant, runs[variant.label], results[variant.label])
    Console(width=120, soft_wrap=True).print(table)


def _add(table: Table, variant: Variant, runs: Sequence[Figures], figures: Figures) -> None:
    label = variant.label
    for name in ratios_first(figures):
        measured = [run[name] for run in runs if name in run]
        ends = (text_of(min(measured)), text_of(max(measured))) if len(measured) > 1 else ("", "")
        table.add_row(label, name, text_of(figures[name]), str(variant.targets.get(name, "")), *ends)
        label = ""
    table.add_section()


def ratios_first(figures: Figures) -> list[str]:
    """Return the names with ratios first, because only ratios can be compared between machines."""
    return sorted(figures, key=lambda name: not name.startswith(RATIOS))


def text_of(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"


def json_line(scenario: BaseScenario, variants: Sequence[Variant], results: Mapping[str, Figures]) -> str:
    """Return the figures of the first variant, and those of all variants by label."""
    first = next(variant for variant in variants if variant.label in results)
    world = {name: getattr(first, name) for name in ("database", "broker", "transport", "workers")}
    return json.dumps({"scenario": scenario.name, **world, **results[first.label], "variants": dict(results)})
