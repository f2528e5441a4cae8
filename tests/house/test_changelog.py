"""The fragments of the changelog. ``towncrier check`` asks only for a new one, and ignores those in unknown folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_fragment_is_in_the_changelog() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "1.0"]
    draft = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    texts = [" ".join(path.read_text().split()) for path in (ROOT / "changelog.d").rglob("*.md")]
    assert [text for text in texts if text not in " ".join(draft.split())] == []
