"""Apply each mutation to a temporary copy of the tree, and run the tests that must catch it.

``python -m tests.mutations [--workers 2] [--first] [name…]`` prints a line for each mutation, and exits with 1 if fewer
than 95 % are caught. All of them take about an hour. mutmut makes 2 of these 99 faults, and cosmic-ray 1:
they change one operator, constant or argument at a time, but no whole condition, no whole step and no SQL.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .catalogue import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
APP = ROOT / "webhooks_app"
REQUIRED_SHARE = 0.95
TIMEOUT_SECONDS = 900
"""A mutation that makes the tests hang is caught."""
FAILED = 1
"""The exit code of pytest for failed tests. Others, such as a wrong path, are errors of the mutation."""


def problem_of(mutation: Mutation) -> str:
    """Return why a mutation cannot be applied; "" if it can."""
    file = APP / mutation.file
    if not file.is_file():
        return f"{mutation.name}: there is no {mutation.file}"
    number = file.read_text().count(mutation.old)
    if number != 1:
        return f"{mutation.name}: its old text occurs {number} times in {mutation.file}; it must occur once"
    if mutation.old == mutation.new:
        return f"{mutation.name}: it changes nothing"
    if not (ROOT / "tests" / mutation.tests).exists():
        return f"{mutation.name}: there is no tests/{mutation.tests}"
    return ""


def is_caught(mutation: Mutation, *, only_first: bool = False) -> bool:
    """Return True if the tests of the mutation's folder fail. Its most probable file runs first, or alone."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        copy = _copied(Path(directory))
        file = copy / "webhooks_app" / mutation.file
        file.write_text(file.read_text().replace(mutation.old, mutation.new))
        folder = mutation.tests.partition("/")[0]
        tests = [mutation.tests] if only_first else dict.fromkeys((mutation.tests, folder))
        return any(_fail(copy, each, mutation.database) for each in tests)


def _copied(directory: Path) -> Path:
    """Copy the tracked and the new files of the tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    return directory


def _fail(copy: Path, tests: str, database: str) -> bool:
    quick = [] if tests.endswith(".py") else ["--part=quick"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", *quick, f"--database={database}", f"tests/{tests}"]
    # A directory of its own, because parallel runs of pytest number theirs.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(copy)}
    try:
        run = subprocess.run(
            command, cwd=copy, env=environment, check=False, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return True
    if run.returncode not in (0, FAILED, 5):  # 5: none of the file's tests runs on this database
        raise RuntimeError(f"{' '.join(command)}\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return run.returncode == FAILED


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="default: all")
    parser.add_argument("--workers", type=int, default=2, help="mutations at a time (default: %(default)s)")
    parser.add_argument("--first", action="store_true", help="only run the file that is tried first, not its folder")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - {each.name for each in MUTATIONS}:
        parser.error(f"there is no mutation {', '.join(sorted(unknown))}")
    chosen = [each for each in MUTATIONS if not options.names or each.name in options.names]
    if problems := [problem for each in chosen if (problem := problem_of(each))]:
        print(*problems, sep="\n")
        return 2
    lock = threading.Lock()

    def run(mutation: Mutation) -> bool:
        began_at = time.monotonic()
        caught = is_caught(mutation, only_first=options.first)
        with lock:
            verdict = "caught" if caught else "SURVIVED"
            print(f"{verdict:<9} {mutation.name:<42} {time.monotonic() - began_at:4.0f} s", flush=True)
        return caught

    with ThreadPoolExecutor(options.workers) as pool:
        results = list(pool.map(run, chosen))
    survived = [each.name for each, caught in zip(chosen, results, strict=True) if not caught]
    print(f"{len(chosen) - len(survived)} of {len(chosen)} mutations were caught.", *survived, sep="\n  ")
    return int(len(survived) > (1 - REQUIRED_SHARE) * len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
