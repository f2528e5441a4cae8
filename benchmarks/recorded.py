"""The recorded counts in ``counts.json``, and their comparison with those of another run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from tests.support.servers import postgresql

from .scenario import Figures

FILE = Path(__file__).with_name("counts.json")
TOLERANCE = 0.05

OF_POSTGRESQL = ("wal_bytes", "buffers", "index_entries", "hot_share", "commits_per_1000")
"""Suffixes of the counts that depend on the version of PostgreSQL."""
OF_PYTHON = ("calls",)
"""Suffixes of the counts that depend on the versions of Python, Django and psycopg."""
TIMES = ("cpu_s_per_1000",)
"""Suffixes of times, which are never compared."""

Versions = Mapping[str, str]


def versions() -> dict[str, str]:
    """Return the versions on which counts depend, without irrelevant parts."""
    return {
        "postgresql": _postgresql(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "django": _minor(version("django")),
        "psycopg": _minor(version("psycopg")),
    }


def keep(figures: Figures, file: Path = FILE) -> None:
    """Record the counts of this run."""
    counts = {name: round(value, 4) for name, value in sorted(figures.items()) if not name.endswith(TIMES)}
    file.write_text(json.dumps({"versions": versions(), "counts": counts}, indent=4) + "\n")


def read(file: Path = FILE) -> tuple[Versions, Figures]:
    found = json.loads(file.read_text())
    return found["versions"], found["counts"]


def comparable(names: Figures, recorded: Versions, current: Versions) -> list[str]:
    """Return the names of the counts that do not depend on a changed version."""
    left_out: tuple[str, ...] = TIMES
    if recorded["postgresql"] != current["postgresql"]:
        left_out += OF_POSTGRESQL
    if any(recorded[name] != current[name] for name in ("python", "django", "psycopg")):
        left_out += OF_PYTHON
    return [name for name in names if not name.endswith(left_out)]


def differing(recorded: Versions, current: Versions) -> list[str]:
    """Return a message for each version that differs from the recorded one."""
    return [
        f"{name} is {current[name]}, recorded with {text}" for name, text in recorded.items() if current[name] != text
    ]


def worse(recorded: Figures, found: Figures) -> list[str]:
    """Return a message for each recorded count that is missing, or worse by more than the tolerance."""
    texts = []
    for name, before in recorded.items():
        now = found.get(name)
        if now is None:
            texts.append(f"{name}: not measured, recorded {before:g} (is the extension pg_walinspect installed?)")
        elif _is_worse(name, before, now):
            texts.append(f"{name}: {now:.4g}, recorded {before:g}")
    return texts


def _is_worse(name: str, before: float, now: float) -> bool:
    if name.endswith("share"):
        return now < before * (1 - TOLERANCE)
    return now > before * (1 + TOLERANCE)


def _postgresql() -> str:
    answer = subprocess.run(
        [postgresql.programs() / "postgres", "--version"], check=True, stdout=subprocess.PIPE, text=True
    )
    if (number := re.search(r"\d+", answer.stdout)) is None:
        raise RuntimeError(f"PostgreSQL has no version: {answer.stdout!r}.")
    return number[0]


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])
