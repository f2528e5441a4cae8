"""The fragments of the changelog."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FRAGMENTS = ROOT / "changelog.d"


def test_each_fragment_is_in_the_changelog() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "1.0"]
    draft = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    texts = [" ".join(path.read_text().split()) for path in FRAGMENTS.rglob("*.md")]
    assert [text for text in texts if text not in " ".join(draft.split())] == []


def test_each_folder_of_fragments_is_a_section() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]

    folders = {path.name for path in FRAGMENTS.iterdir() if path.is_dir()}
    assert folders <= {section["path"] for section in settings["section"]}
