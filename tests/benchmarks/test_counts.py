"""The counted costs of a delivery do not exceed those in ``benchmarks/counts.json``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import recorded, wire
from benchmarks.scenario import Figures
from tests.support.missing import skip_without
from tests.support.servers import postgresql
from tests.support.servers.process import ServerMissingError

ROOT = Path(__file__).parents[2]
SERVER = {**postgresql.ADDRESS, "fsync": "off"}
"""The counts do not depend on the disk."""
ARGUMENTS = {
    "runs": 1,
    "database": None,
    "broker": None,
    "transport": None,
    "workers": None,
    "only": None,
    "variant": "",
}

VERSIONS = {"postgresql": "15", "python": "3.11", "django": "5.2", "psycopg": "3.3"}
COUNTS = {"emit_wal_bytes": 1000.0, "claim_hot_share": 0.8, "deliver_calls": 100.0, "emit_statements": 0.1}
TRACE = b"""\
F\t13\tQuery\t "BEGIN"
B\t10\tCommandComplete\t "BEGIN"
B\t5\tReadyForQuery\t T
F\t40\tQuery\t "COPY attempt FROM STDIN
WHERE true"
B\t8\tCopyInResponse\t \\x00 0
F\t20\tCopyData\t 'F\\x09one'
F\t4\tCopyDone
B\t11\tCommandComplete\t "COPY 1"
B\t5\tReadyForQuery\t T
"""


@pytest.mark.timeout(120)
def test_no_count_of_a_delivery_exceeds_the_recorded_one() -> None:
    versions, counts = recorded.read()
    current = _versions()
    found = _measured()

    names = recorded.comparable(counts, versions, current)

    note = "; ".join(recorded.differing(versions, current)) or "the versions are the recorded ones"
    assert len(names) >= 8, note
    assert recorded.worse({name: counts[name] for name in names}, found) == [], (
        f"Compared: {', '.join(names)} ({note}). To accept them: python -m benchmarks counts --record"
    )


@pytest.mark.parametrize(
    ("change", "names"),
    [
        pytest.param({"emit_wal_bytes": 1049.0, "deliver_calls": 50.0, "claim_hot_share": 0.79}, [], id="within 5 %"),
        pytest.param({"emit_wal_bytes": 1051.0}, ["emit_wal_bytes"], id="more bytes"),
        pytest.param({"claim_hot_share": 0.75}, ["claim_hot_share"], id="a smaller share"),
        pytest.param({"claim_hot_share": 1.0}, [], id="a larger share"),
    ],
)
def test_a_count_is_exceeded_by_more_than_five_percent(change: Figures, names: list[str]) -> None:
    texts = recorded.worse(COUNTS, {**COUNTS, **change})

    assert [text.partition(":")[0] for text in texts] == names


def test_a_count_that_is_no_longer_measured_is_reported() -> None:
    (text,) = recorded.worse({"emit_wal_bytes": 1000.0}, {})

    assert text.startswith("emit_wal_bytes: not measured")


@pytest.mark.parametrize(
    ("current", "names"),
    [
        pytest.param({}, list(COUNTS), id="the recorded versions"),
        pytest.param({"postgresql": "17"}, ["deliver_calls", "emit_statements"], id="another PostgreSQL"),
        pytest.param({"python": "3.13"}, ["emit_wal_bytes", "claim_hot_share", "emit_statements"], id="another Python"),
        pytest.param({"django": "6.0"}, ["emit_wal_bytes", "claim_hot_share", "emit_statements"], id="another Django"),
        pytest.param({"postgresql": "17", "psycopg": "3.4"}, ["emit_statements"], id="two others"),
    ],
)
def test_counts_are_compared_unless_they_depend_on_another_version(current: dict[str, str], names: list[str]) -> None:
    versions = {**VERSIONS, **current}

    found = recorded.comparable({**COUNTS, "emit_cpu_s_per_1000": 0.03}, VERSIONS, versions)

    assert found == names
    assert [text.split()[0] for text in recorded.differing(VERSIONS, versions)] == list(current)


def test_recorded_counts_are_read_with_their_versions(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    current = _versions()

    recorded.keep({**COUNTS, "emit_cpu_s_per_1000": 0.03}, file)

    assert recorded.read(file) == (current, COUNTS)


def test_a_copy_is_one_statement_and_two_round_trips() -> None:
    counts = wire.counted(TRACE.splitlines(keepends=True))

    assert counts == {"statements": 2, "round_trips": 3}


def _measured() -> Figures:
    """Return the counts of a run in a separate process and server."""
    command = [sys.executable, "-m", "benchmarks.measuring", "counts", "PostgreSQL", json.dumps(ARGUMENTS)]
    with postgresql.running(SERVER) as url:
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "benchmarks.settings", "BENCHMARK_DATABASE_URL": url}
        answer = subprocess.run(
            command, check=True, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, timeout=200
        )
    (figures,) = json.loads(answer.stdout.splitlines()[-1])
    assert isinstance(figures, dict)
    return figures


def _versions() -> dict[str, str]:
    try:
        return recorded.versions()
    except ServerMissingError as error:
        skip_without(error)
