"""Find word-for-word translations in all texts of the checkout, code included.

``python -m tests.house.prose`` prints each one with its place and a correction, and exits with 1 if there is one. With
paths it reads those files. The list is ``tests/house/calques.txt``. codespell compares single words only, and Vale's
package downloads its program when it runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALQUES = Path(__file__).with_name("calques.txt")
GAP = r"""(?:[\s_#/*]|["'][\s#f]*["'])+"""
"""What may stand between two words: a new line of a comment or of a string, and an underscore in the name of a test."""


def pattern(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?<!-)(?:{phrase.replace(' ', GAP)})(?![^\W_]|-)", re.IGNORECASE)


def calques() -> dict[re.Pattern[str], str]:
    """Return the correction of each pattern."""
    lines = (line.split(" => ") for line in CALQUES.read_text().splitlines() if line and not line.startswith("#"))
    return {pattern(phrase): instead for phrase, instead in lines}


def find(path: Path, instead_of: dict[re.Pattern[str], str]) -> Iterator[str]:
    """Yield the place of each calque, the calque, and a correction."""
    text = path.read_text()
    for calque, instead in instead_of.items():
        for found in calque.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path}:{line}: instead of “{' '.join(found[0].split())}” write “{instead}”"


def main(paths: Sequence[str]) -> int:
    listed = subprocess.check_output(["git", "grep", "-Ilz", "", "--", *paths], cwd=ROOT, text=True).split("\0")[:-1]
    read = [name for name in listed if not re.search(r"/locale/|/migrations/|calques\.txt$|test_prose\.py$", name)]
    found = [each for name in read for each in find(ROOT / name, calques())]
    print(*found, sep="\n") if found else print("No word-for-word translation was found.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
