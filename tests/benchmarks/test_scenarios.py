"""The benchmarks run, count correctly and report their results. Their figures are not tested."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User

from benchmarks import command, record, report, rows, scenario
from benchmarks.progress import Progress
from benchmarks.receivers import Receiver
from benchmarks.scenario import BaseScenario, Figures, Variant, at_least, at_most
from benchmarks.scenarios import readers, structure
from tests.support.missing import skip_without
from tests.support.rows import emit_one, make_webhook
from tests.support.servers.process import ServerMissingError, program
from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import DeliveryAttempt
from webhooks_app.transport.memory import MemoryTransport

ROOT = Path(__file__).parents[2]


class Toy(BaseScenario):
    """All that a new scenario requires: its name, its variants, and one measurement."""

    name = "toy"
    summary = "nothing at all"
    variants = (
        Variant(label="fast", targets={"per_s": at_least(10), "ms": at_most(2.5)}),
        Variant(label="embedded", database="sqlite", broker="folder"),
        Variant(label="another package", contestant="another"),
    )
    options: ClassVar = {"toys": (100, "toys to make")}
    quick: ClassVar = {"toys": 2}
    in_all: ClassVar = {"toys": 50}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        return {"ms": 1.0, "per_s": float(arguments.toys), "ratio_to_ceiling": 0.5}


def options(*argv: str) -> argparse.Namespace:
    """Return the command line for the toy."""
    toy = Toy()
    return command.completed(command.parser({"toy": toy}).parse_args(argv), toy)


def chosen(*argv: str) -> list[tuple[str, str, str]]:
    return [
        (variant.label, variant.database, variant.broker) for variant in Toy().chosen_variants(options("toy", *argv))
    ]


@pytest.mark.parametrize(
    ("argv", "toys", "runs"),
    [
        pytest.param(("toy",), 100, 3, id="the scenario's own"),
        pytest.param(("toy", "--quick"), 2, 1, id="a quick look"),
        pytest.param((), 50, 3, id="where all are run"),
        pytest.param(("toy", "--quick", "--toys", "7", "--runs", "4"), 7, 4, id="as asked for"),
    ],
)
def test_a_scenario_has_defaults_for_full_and_quick_runs(argv: tuple[str, ...], toys: int, runs: int) -> None:
    arguments = options(*argv)

    assert (arguments.toys, arguments.runs) == (toys, runs)


@pytest.mark.parametrize(
    ("argv", "variants"),
    [
        pytest.param(
            (),
            [
                ("fast", "postgresql", "redis"),
                ("embedded", "sqlite", "folder"),
                ("another package", "postgresql", "redis"),
            ],
            id="all",
        ),
        pytest.param(
            ("--database", "sqlite"),
            [("embedded", "sqlite", "folder"), ("another package", "sqlite", "folder")],
            id="rivals get the same database",
        ),
        pytest.param(("--only", "ours", "--broker", "redis"), [("fast", "postgresql", "redis")], id="ours alone"),
        pytest.param(
            ("--only", "ours", "--database", "mariadb"), [("mariadb", "mariadb", "redis")], id="a world of its own"
        ),
    ],
)
def test_the_options_choose_the_variants(argv: tuple[str, ...], variants: list[tuple[str, str, str]]) -> None:
    assert chosen(*argv) == variants


def test_every_module_in_scenarios_is_a_scenario() -> None:
    modules = {path.stem for path in (ROOT / "benchmarks" / "scenarios").glob("[!_]*.py")}

    found = {type(known).__module__.rpartition(".")[2] for known in scenario.scenarios().values()}

    assert modules == found - {__name__.rpartition(".")[2]}


def test_the_readme_lists_every_scenario() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text()

    assert [name for name in scenario.scenarios() if f"| `{name}` |" not in readme and name != "toy"] == []


def test_the_table_shows_targets_next_to_results_and_ratios_first(capsys: pytest.CaptureFixture[str]) -> None:
    toy, runs = Toy(), {"fast": [{"ms": 3.0, "per_s": 8.0, "ratio_to_ceiling": 0.5}]}

    report.print_table(toy, toy.variants, runs, {"fast": report.medians(runs["fast"])}, note="median of 1")

    lines = [line.split() for line in capsys.readouterr().out.replace("│", " ").splitlines()]
    assert [line for line in lines if "fast" in line] == [["fast", "ratio_to_ceiling", "0.5"]]
    assert ["ms", "3", "≤", "2.5"] in lines
    assert ["per_s", "8", "≥", "10"] in lines


def test_the_json_line_has_the_first_variant_and_all_of_them() -> None:
    toy, results = Toy(), {"fast": {"per_s": 8.0}, "embedded": {"per_s": 5.0}}

    found = json.loads(report.json_line(toy, toy.variants, results))

    assert (found["scenario"], found["database"], found["per_s"]) == ("toy", "postgresql", 8.0)
    assert found["variants"] == results


def test_a_recorded_table_replaces_the_last(tmp_path: Path) -> None:
    toy, readme = Toy(), tmp_path / "README.md"
    readme.write_text("# Benchmarks\n")

    for reached in (8.0, 12.0):
        record.keep("toy", toy.summary, toy.variants, {"fast": {"per_s": reached}}, note="median of 3", readme=readme)

    text = readme.read_text()
    assert text.startswith("# Benchmarks\n")
    assert text.count("### toy") == 1
    assert "| fast | `per_s` | 12 | ≥ 10 |" in text
    assert re.search(r"^`python -m benchmarks toy --record` in commit \w+.*, 20[\d-]+, median", text, re.MULTILINE)


@pytest.fixture
def delivered(db: None, tmp_path: Path, django_user_model: type[User]) -> tuple[Receiver, Path]:
    """A receiver whose log contains the two requests in the rows."""
    owner = django_user_model.objects.create(username="owner")
    make_webhook(owner)
    for _ in range(2):
        emit_one(owner)
    Engine(transport=MemoryTransport(transport_options())).run_until_idle()
    log = tmp_path / "access.log"
    signatures = DeliveryAttempt.objects.values_list("signatures", flat=True)
    log.write_text("".join(f"1.5 0.1 127.0.0.1/hook?{number} {text}\n" for number, text in enumerate(signatures)))
    return Receiver(9, log), log


def test_a_run_with_consistent_rows_and_log_passes(delivered: tuple[Receiver, Path]) -> None:
    receiver, _ = delivered

    rows.check(receiver, 2)


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["lost", "twice"])
def test_a_lost_or_duplicate_delivery_fails_the_run(delivered: tuple[Receiver, Path], change: str) -> None:
    receiver, log = delivered
    first, second = log.read_text().splitlines(keepends=True)
    log.write_text(first if change == "lost" else first + second + second)

    with pytest.raises(RuntimeError, match="2 were expected"):
        rows.check(receiver, 2)


@pytest.mark.timeout(180)
def test_a_scenario_runs_from_the_command_line() -> None:
    _require_nginx()
    command = (
        "throughput --quick --json --only ours --database sqlite --broker folder --events 2 --ceiling-requests 100"
    )

    answer = _run(command)

    found = json.loads(answer.stdout.splitlines()[-1])
    assert {"deliveries_per_s", "ceiling_per_s", "ratio_to_ceiling", "cpu_s_per_1000"} <= found.keys()
    assert found["ratio_to_ceiling"] == pytest.approx(found["deliveries_per_s"] / found["ceiling_per_s"])


@pytest.mark.timeout(400)
def test_everything_missed_is_recovered_although_workers_are_killed() -> None:
    _require_nginx()

    answer = _run("recovery --quick --json")

    found = json.loads(answer.stdout.splitlines()[-1])
    wrong = [found[name] for name in ("lost", "recorded_twice", "beyond_promise", "by_hand")]
    assert (found["missed"], wrong) == (100, [0, 0, 0, 0])
    assert found["attempts"] > 0
    assert found["replays"] >= 20


@pytest.mark.timeout(180)
def test_the_reader_of_the_app_reads_each_unusual_answer() -> None:
    scenario = readers.Readers()

    figures = scenario.measure(argparse.Namespace(answers=10), scenario.variants[0], Progress("readers"))

    assert figures["ours_unusual_read"] == len(readers.UNUSUAL)
    assert figures["ours_ms_per_1000"] > 0


def test_the_structure_of_the_package_is_counted() -> None:
    answer = _run("structure --json --database sqlite")

    found = json.loads(answer.stdout.splitlines()[-1])
    walks = ("emit", "send", "redeliver", "register", "handshake")
    assert 0 < found["code_lines"] < found["lines"]
    assert all(0 < found[f"{walk}_files"] <= found[f"{walk}_functions"] for walk in walks)
    assert all(found[name] > 0 for name in ("pause_queries", "delete_queries", "emit_calls", "deliver_calls"))


def test_lines_of_code_are_neither_blank_nor_imports_docstrings_or_comments() -> None:
    text = """\
\"\"\"A docstring
of two lines.\"\"\"

from typing import (
    Any,
)

# A comment.
LIMIT: Any = 5  # counts
\"\"\"A docstring of an attribute.\"\"\"
TEXT = \"\"\"
two of
\"\"\"
"""

    assert structure.code_lines(text) == 4


def _run(arguments: str) -> subprocess.CompletedProcess[str]:
    own = ("DJANGO_SETTINGS_MODULE", "PYTEST_CURRENT_TEST")
    environment: dict[str, Any] = {name: value for name, value in os.environ.items() if name not in own}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments.split()],
        check=True,
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
    )


def _require_nginx() -> None:
    try:
        program("nginx", "/usr/sbin", package="nginx-light")
    except ServerMissingError as error:
        skip_without(error)
