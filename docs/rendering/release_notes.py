"""The release notes, from the changelog and from the fragments of the next release."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RELEASED = "<!-- towncrier release notes start -->"
LINK = re.compile(r"\]\((?:docs/)([\w./-]+\.md)")


def release_notes() -> str:
    """Return a section for the next release, if it has fragments, and one for each earlier release."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "Next release", "--date", ""]
    draft = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603
    following = draft[draft.index("## ") :] if "\n- " in draft else ""
    earlier = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition(RELEASED)[2]
    notes = re.sub(r"^## Next release.*$", "## Next release", f"{following}\n{earlier}", flags=re.MULTILINE)
    return LINK.sub(r"](../\1", notes)
