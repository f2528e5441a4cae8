"""The command line: the scenarios, their variants and runs, and the output."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.servers.process import ServerMissingError

from . import machine, record, report, servers
from .scenario import BaseScenario, Figures, Variant, scenarios


def main(argv: Sequence[str] | None = None) -> int:
    """Run one scenario, or all; return 1 if a variant failed."""
    known = scenarios()
    arguments = parser(known).parse_args(argv)
    chosen = [known[arguments.scenario]] if arguments.scenario else list(known.values())
    print(machine.description())
    failures = 0
    for scenario in chosen:
        failures += _run(scenario, completed(arguments, scenario))
    return 1 if failures else 0


def parser(known: Mapping[str, BaseScenario]) -> argparse.ArgumentParser:
    """Return the parser of the command line for these scenarios and their options."""
    listing = "\n".join(f"  {scenario.name:<12} {scenario.summary}" for scenario in known.values())
    arguments = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Measure one scenario, or all:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_argument("scenario", nargs="?", choices=known, metavar="SCENARIO", help="default: all")
    arguments.add_argument("--database", choices=servers.DATABASES, help="only variants with this database")
    arguments.add_argument("--broker", choices=servers.BROKERS, help="only variants with this broker")
    arguments.add_argument("--transport", help="only variants with this transport: native or requests")
    arguments.add_argument("--workers", type=int, help="only variants with this number of worker processes")
    arguments.add_argument("--variant", default="", metavar="TEXT", help="only variants with this text in their label")
    arguments.add_argument("--only", action="append", metavar="CONTESTANT", help="ours, or a rival's name; repeatable")
    arguments.add_argument("--runs", type=int, help="number of runs; the table shows their median")
    arguments.add_argument(
        "--quick", action="store_true", help="one short run, to test the scenarios; its figures mean little"
    )
    arguments.add_argument("--record", action="store_true", help="write the tables to benchmarks/README.md")
    arguments.add_argument("--json", action="store_true", help="print one JSON line after the table")
    for name, (type_, text) in _options(known).items():
        how: dict[str, Any] = {"action": "store_true", "default": None} if type_ is bool else {"type": type_}
        arguments.add_argument(f"--{name.replace('_', '-')}", help=text, **how)
    return arguments


def _options(known: Mapping[str, BaseScenario]) -> dict[str, tuple[type, str]]:
    """Return the type and the help of each option of the scenarios; the help has their names and defaults."""
    found: dict[str, tuple[type, list[str]]] = {}
    for scenario in known.values():
        for name, (default, text) in scenario.options.items():
            shown = text if default == "" else f"{text} ({default:,})"
            found.setdefault(name, (type(default), []))[1].append(f"{scenario.name}: {shown}")
    return {name: (type_, "; ".join(texts)) for name, (type_, texts) in found.items()}


def completed(arguments: argparse.Namespace, scenario: BaseScenario) -> argparse.Namespace:
    """Return the arguments with the defaults of the scenario, for ``--quick`` and for a run of all scenarios."""
    defaults = {"runs": scenario.runs} | {name: default for name, (default, _) in scenario.options.items()}
    if arguments.scenario is None:
        defaults |= scenario.in_all
    if arguments.quick:
        defaults |= {"runs": 1, **scenario.quick}
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return argparse.Namespace(**{**vars(arguments), **defaults, **given})


def _run(scenario: BaseScenario, arguments: argparse.Namespace) -> int:
    if arguments.record and (load := os.getloadavg()[0]) > scenario.max_load:
        print(f"{scenario.name}: not recorded above a load of {scenario.max_load}; it is {load:.1f}", file=sys.stderr)
        return 1
    variants = scenario.chosen_variants(arguments)
    runs: dict[str, list[Figures]] = {}
    failures = 0
    for number, variant in enumerate(variants, start=1):
        print(f"{scenario.name}, {number} of {len(variants)}: {variant.label}", file=sys.stderr, flush=True)
        try:
            if measured := _measured(scenario, variant, arguments):
                runs[variant.label] = measured
        except (subprocess.CalledProcessError, ServerMissingError, RuntimeError) as error:  # a server did not start
            failures += 1
            reason = "see above" if isinstance(error, subprocess.CalledProcessError) else error
            print(f"{scenario.name}, {variant.label}: not measured ({reason})", file=sys.stderr, flush=True)
    if runs:
        results = {label: report.medians(figures) for label, figures in runs.items()}
        scenario.compare(results)
        note = f"median of {arguments.runs}" + (", quick" if arguments.quick else "")
        report.print_table(scenario, variants, runs, results, note=note)
        if arguments.record:
            record.keep(scenario.recorded_as(arguments), scenario.summary, variants, results, note=note)
            scenario.keep(results)
        if arguments.json:
            print(report.json_line(scenario, variants, results), flush=True)
    return failures


def _measured(scenario: BaseScenario, variant: Variant, arguments: argparse.Namespace) -> list[Figures]:
    """Measure in a new process, whose environment has the addresses of the started servers."""
    command = [sys.executable, "-m", "benchmarks.measuring", scenario.name, variant.label, json.dumps(vars(arguments))]
    with servers.running(variant.database, variant.broker, variant.transport, variant.settings) as environment:
        answer = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )
    runs: list[Figures] = json.loads(answer.stdout.splitlines()[-1])
    return runs
