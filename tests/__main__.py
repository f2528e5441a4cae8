"""Run the tests on every database that this machine has, side by side, and add up the results.

Up to ten tests that fail beside the others run once more, alone. One that passes then depends on load or on the tests
before it: the summary names it, so that somebody repairs it, but the run does not fail.

``python -m tests`` takes ``--database=…`` for one database alone, and pytest's arguments. Its last line is the sum.
Without a database server, and outside CI, slow tests are omitted. With ``CI`` in the environment a skipped test or a
missing server is a failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import Element, parse

from .support.databases import DATABASES
from .support.servers.process import ServerMissingError

# Tests mostly wait for receivers, so more processes than cores are faster.
PROCESSES = {"sqlite": 3, "postgresql": 3, "mariadb": 2}
PROCESSES_ALONE = 5
REPEATED = 10
"""If more tests fail, it is not by chance, and none of them runs again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The result of one run of pytest.

    ``failed`` and ``unsteady`` have the name of each test, ``skipped`` the reason. An unsteady test failed beside the
    others and passed alone.
    """

    database: str
    passed: int
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    seconds: float
    unsteady: tuple[str, ...] = ()
    was_aborted: bool = False

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", allow_abbrev=False)
    parser.add_argument("--database", choices=tuple(DATABASES), help="default: each whose server this machine has")
    own, rest = parser.parse_known_args(arguments)
    is_ci = bool(os.environ.get("CI"))
    available, missing = _look_for_servers(own.database, is_ci=is_ci)
    is_quick = available == ["sqlite"] and not is_ci
    options = [*(["--quick"] if is_quick else []), *rest]
    if is_quick:
        print("Slow tests are omitted. They run in CI and on machines with a database server.", flush=True)
    with tempfile.TemporaryDirectory() as reports, ThreadPoolExecutor() as pool:
        processes = PROCESSES if len(available) > 1 else dict.fromkeys(available, PROCESSES_ALONE)
        run = partial(_run, options=options, processes=processes, reports=Path(reports))
        results = list(pool.map(run, available))
        if 0 < sum(len(result.failed) for result in results) <= REPEATED:
            results = [_repeat_failed(result, options=rest, reports=Path(reports)) for result in results]
    total = Result(
        database="all",
        passed=sum(result.passed for result in results),
        failed=tuple(f"[{result.database}] {line}" for result in results for line in result.failed),
        skipped=tuple(line for result in results for line in result.skipped),
        seconds=0,
        unsteady=tuple(f"[{result.database}] {line}" for result in results for line in result.unsteady),
    )
    print("", *_summary(results, missing, total), total, sep="\n")
    return exit_status(total, missing, is_ci=is_ci)


def exit_status(total: Result, missing: Mapping[str, str], *, is_ci: bool) -> int:
    """Return 0 if no test failed and, in CI, none was skipped and no server is missing."""
    return int(bool(total.failed or (is_ci and (total.skipped or missing))))


def _look_for_servers(chosen: str | None, *, is_ci: bool) -> tuple[list[str], dict[str, str]]:
    """Return the databases to run on, and the reason for each omitted one.

    A server from a wheel counts in CI, and for a chosen database.
    """
    if chosen:
        DATABASES[chosen].check()
        return [chosen], {}
    missing = {}
    for name, database in DATABASES.items():
        try:
            (database.check if is_ci else database.find)()
        except ServerMissingError as error:
            missing[name] = str(error)
    return [name for name in DATABASES if name not in missing], missing


def _run(database: str, *, options: Sequence[str], processes: Mapping[str, int], reports: Path) -> Result:
    side_by_side = [f"--numprocesses={processes[database]}", "--maxschedchunk=1"]
    return _run_pytest(database, [*side_by_side, *options], reports / f"{database}.xml")


def _repeat_failed(result: Result, *, options: Sequence[str], reports: Path) -> Result:
    """Run the failed tests of a result once more, one after the other, and return the result of both runs."""
    if not result.failed or result.was_aborted:
        return result
    print(f"\nThe {len(result.failed)} failed on {result.database} run again, alone:", flush=True)
    alone = [*options, "--last-failed", "--last-failed-no-failures=none"]
    repeated = _run_pytest(result.database, alone, reports / f"{result.database}-again.xml")
    return merge(result, repeated)


def merge(first: Result, repeated: Result) -> Result:
    """Return the result of a run and of the repetition of its failed tests. One that did not run again has failed."""
    failed = first.failed if repeated.was_aborted else repeated.failed
    if repeated.passed + len(failed) < len(first.failed):
        failed = first.failed
    unsteady = tuple(name for name in first.failed if name not in failed)
    seconds = first.seconds + repeated.seconds
    return replace(first, passed=first.passed + len(unsteady), failed=failed, unsteady=unsteady, seconds=seconds)


def _run_pytest(database: str, options: Sequence[str], report: Path) -> Result:
    colour = "yes" if sys.stdout.isatty() else "no"
    command = [
        *(sys.executable, "-m", "pytest", f"--database={database}", f"--junitxml={report}", f"--color={colour}"),
        *("--override-ini", f"cache_dir=.pytest_cache/{database}", *options),
    ]
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pytest:
        assert pytest.stdout
        for line in pytest.stdout:
            print(f"{database:>10} │ {line}", end="", flush=True)
    return read_report(database, report, pytest.returncode, time.monotonic() - started)


def read_report(database: str, report: Path, status: int, seconds: float = 0) -> Result:
    """Return the result of a run, from its JUnit report and its exit status."""
    cases = list(parse(report).iter("testcase")) if report.exists() else []
    failed = [_name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skips = [skip.get("message", "") for case in cases for skip in case.iterfind("skipped[@type='pytest.skip']")]
    was_aborted = status not in (0, 1) or bool(status and not failed)
    if was_aborted:
        failed.append(f"pytest ended with status {status}")
    return Result(
        database=database,
        passed=max(0, len(cases) - len(failed) - len(skips)),
        failed=tuple(failed),
        skipped=tuple(skips),
        seconds=seconds,
        was_aborted=was_aborted,
    )


def _name(case: Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _summary(results: Sequence[Result], missing: dict[str, str], total: Result) -> Iterator[str]:
    for result in results:
        yield f"{result.database:>10} │ {result}, {result.seconds:.0f} s"
    for database, reason in missing.items():
        yield f"{database:>10} │ not run: {reason}"
    yield from (f"   failed │ {line}" for line in total.failed)
    yield from (f" unsteady │ {line}: failed beside other tests, passed alone" for line in total.unsteady)
    yield from (f"  skipped │ {count} × {reason}" for reason, count in Counter(total.skipped).items())
    if os.environ.get("CI") and (missing or total.skipped):
        yield "In CI nothing may be skipped."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
