"""``python -m benchmarks [SCENARIO]``: measure, print a table, and on request one JSON line."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable

from . import scenarios, world

SCENARIOS: dict[str, Callable[[argparse.Namespace], dict[str, float]]] = {
    "throughput": scenarios.throughput,
    "latency": scenarios.latency,
    "emit": scenarios.emit,
}


def main() -> int:
    arguments = _parser().parse_args()
    names = [arguments.scenario] if arguments.scenario else list(SCENARIOS)
    for name in names:
        with world.servers(arguments.database, arguments.broker, arguments.transport):
            scenarios.set_up()
            runs = [SCENARIOS[name](arguments) for _ in range(arguments.runs)]
        medians = {figure: statistics.median(run[figure] for run in runs) for figure in runs[0]}
        _print_table(name, arguments, runs, medians)
        if arguments.json:
            print(json.dumps({"scenario": name, "database": arguments.database, **medians}))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS, help="all, if none is given")
    parser.add_argument("--database", default="postgresql", choices=("postgresql", "mariadb", "sqlite"))
    parser.add_argument("--broker", default="redis", choices=("redis", "rabbitmq"))
    parser.add_argument("--transport", default="auto", help="auto, curl or requests")
    parser.add_argument("--events", type=int, default=1000, help="events; each goes to 10 of 20 webhooks")
    parser.add_argument("--workers", type=int, default=1, help="worker processes")
    parser.add_argument("--runs", type=int, default=3, help="runs, of which the median is shown")
    parser.add_argument("--json", action="store_true", help="print one JSON line after the table")
    return parser


def _print_table(
    name: str, arguments: argparse.Namespace, runs: list[dict[str, float]], medians: dict[str, float]
) -> None:
    print(f"\n{name}: {arguments.database}, {arguments.broker}, {arguments.transport}, median of {len(runs)}")
    for figure, median in medians.items():
        low, high = min(run[figure] for run in runs), max(run[figure] for run in runs)
        print(f"  {figure:<28} {median:>12,.4g}   ({low:,.4g} to {high:,.4g})")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
