"""Run the tests on every database that this machine has, and add up the results.

``--part=quick`` runs the tests of ``make test``: everything on SQLite that needs no process of its own, and on
PostgreSQL what differs between databases. Each run is an ordinary ``pytest`` with the arguments that it prints. Up to
ten tests that fail run again, alone. One that passes then is unsteady: it is named, and the run fails, unless
``--retry`` forgives it. With ``CI`` in the environment nothing is forgiven, and a skipped test and a missing server are
failures too.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from .support.databases import DATABASES
from .support.parts import LONGER
from .support.servers.process import ServerMissingError

PROCESSES = {"sqlite": 3, "postgresql": 3, "mariadb": 2}
"""The longer tests mostly wait, so the databases run side by side, with more processes than cores."""
PROCESSES_ALONE = 4
PROCESSES_QUICK = {"sqlite": 3, "postgresql": 2}
"""The quick tests hardly wait, and each process first imports them and makes its tables."""

REPEATED = 10
"""If more tests fail, it is not by chance, and none of them runs again."""

NO_TESTS = 5
"""The status of pytest if none of the tests runs on this database."""

QUICK_ON = ("sqlite", "postgresql")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", allow_abbrev=False)
    parser.add_argument("--database", choices=tuple(DATABASES), help="default: each whose server this machine has")
    parser.add_argument("--part", choices=("quick", "rest", "all"), default="all", help="default: %(default)s")
    parser.add_argument("--retry", action="store_true", help="forgive tests that fail beside others and pass alone")
    own, rest = parser.parse_known_args(arguments)
    is_ci = bool(os.environ.get("CI"))
    names, missing = _look_for_servers(own.database, own.part, is_ci=is_ci)
    are_beside = own.part != "quick" and len(names) > 1
    processes = PROCESSES if are_beside else PROCESSES_QUICK if own.part == "quick" else {}
    with ThreadPoolExecutor(len(names) if are_beside else 1) as pool:
        run = partial(_run, part=own.part, options=rest, processes=processes)
        tallies = dict(zip(names, pool.map(run, names), strict=True))
    tallies = {name: _repeat_failed(name, tally, own.part, rest) for name, tally in tallies.items()}
    print("", *_summary(tallies, missing, own.part), sep="\n")
    return exit_status(tallies.values(), missing, is_ci=is_ci, forgives=own.retry)


def exit_status(tallies: Any, missing: Mapping[str, str], *, is_ci: bool, forgives: bool) -> int:
    """Return 0 if every test passed beside the others and, in CI, none was skipped and no server is missing.

    CI forgives no unsteady test.
    """
    forgives = forgives and not is_ci
    bad = any(tally["failed"] or (tally["unsteady"] and not forgives) for tally in tallies)
    return int(bad or (is_ci and (bool(missing) or any(tally["skipped"] for tally in tallies))))


def _look_for_servers(chosen: str | None, part: str, *, is_ci: bool) -> tuple[list[str], dict[str, str]]:
    """Return the databases to run on, and the reason for each omitted one.

    A server from a wheel counts in CI, and for a chosen database.
    """
    if chosen:
        DATABASES[chosen].check()
        return [chosen], {}
    missing = {}
    names = [name for name in DATABASES if part != "quick" or name in QUICK_ON]
    for name in names:
        try:
            (DATABASES[name].check if is_ci else DATABASES[name].find)()
        except ServerMissingError as error:
            missing[name] = str(error)
    return [name for name in names if name not in missing], missing


def _run(database: str, *, part: str, options: Sequence[str], processes: Mapping[str, int]) -> dict[str, Any]:
    number = processes.get(database, PROCESSES_ALONE)
    order = "--dist=load" if part == "quick" else "--dist=loadgroup"
    return _run_pytest(database, part, [f"--numprocesses={number}", order, *options])


def _repeat_failed(database: str, tally: dict[str, Any], part: str, options: Sequence[str]) -> dict[str, Any]:
    """Run the failed tests of a database once more, alone. Return the tally of both runs."""
    failed = tally["failed"]
    if not 0 < len(failed) <= REPEATED:
        return tally
    alone = _run_pytest(database, part, [*options, "--last-failed", "--last-failed-no-failures=none"])
    if alone["passed"] + len(alone["failed"]) < len(failed):  # it ended early
        return tally
    unsteady = [name for name in failed if name not in alone["failed"]]
    return {**tally, "failed": alone["failed"], "unsteady": unsteady}


def _run_pytest(database: str, part: str, options: Sequence[str]) -> dict[str, Any]:
    chosen = [f"--database={database}", f"--part={part}", *rows_of(database, part)]
    chosen += ["--override-ini", f"cache_dir=.pytest_cache/{Path(sys.prefix).name}-{database}"]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "tally.json")
        command = ["pytest", "--quiet", *chosen, *options]
        print(f"\n{shlex.join(command)}", flush=True)
        command = [sys.executable, "-m", *command, f"--tally={path}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as done:
            assert done.stdout
            for line in done.stdout:
                print(f"{database:>10} │ {line}", end="", flush=True)
        tally = json.loads(path.read_text()) if path.exists() else {}
    tally = {"passed": 0, "failed": [], "unsteady": [], "skipped": [], **tally}
    if done.returncode not in (0, 1, NO_TESTS) or (done.returncode == 1 and not tally["failed"]):
        tally["failed"].append(f"pytest ended with status {done.returncode}")
    return tally


def rows_of(database: str, part: str) -> list[str]:
    """Return the option for the tables of parameters: SQLite tries all rows, a server those that differ there."""
    return [] if database == "sqlite" or part == "quick" else ["--rows=differing"]


def _summary(tallies: Mapping[str, dict[str, Any]], missing: Mapping[str, str], part: str) -> Iterator[str]:
    for name in tallies:
        yield from (f"  failed   {name}: {line}" for line in tallies[name]["failed"])
        yield from (
            f"  unsteady {name}: {line} failed beside others and passed alone" for line in tallies[name]["unsteady"]
        )
        yield from (f"  skipped  {name}: {n} × {line}" for line, n in Counter(tallies[name]["skipped"]).items())
    yield from (f"  left out {name}: {reason}" for name, reason in missing.items())
    if part == "quick":
        others = [name for name in DATABASES if name not in {**tallies, **missing}]
        yield f"  left out {', '.join([*others, *LONGER])}"
        yield "  `make test-all` runs everything."
    for name, tally in tallies.items():
        yield f"{name}: {_sums([tally])}"
    yield _sums(tallies.values())


def _sums(tallies: Any) -> str:
    every = list(tallies)
    passed = sum(tally["passed"] for tally in every)
    failed, unsteady, skipped = (sum(len(tally[name]) for tally in every) for name in ("failed", "unsteady", "skipped"))
    return f"{passed} passed, {failed + unsteady} failed, {skipped} skipped"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
