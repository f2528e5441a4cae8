"""Measure the English of docstrings, comments, messages, templates and documents.

``python -m tests.house.prose`` prints a line for each area and exits with 1 if a limit is exceeded. With paths it
measures those files; ``--list`` prints the sentences that count. The limits follow Django's own text, where "what"
appears 0.3 times in 1,000 words.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
AREAS: dict[str, tuple[str, ...]] = {
    "webhooks_app": ("webhooks_app/*.py",),
    "templates": ("webhooks_app/templates/*", "example_project/*.html"),
    "documentation": ("*.md",),
    "example_project": ("example_project/*.py", "manage.py"),
    "tests": ("tests/*.py",),
    "benchmarks": ("benchmarks/*.py",),
    "other files": ("Makefile", ".ci/run", "pyproject.toml", "deploy/*", "*.js", "*.css"),
}
"""Patterns of `git ls-files` for each area."""

BINARY = (".png", ".svg")
WHAT, SPEECH, OPENER = "what", "tell/say", "opener"
WORDS = {
    WHAT: re.compile(r"\bwhat(?:ever|'s)?\b", re.IGNORECASE),
    SPEECH: re.compile(r"\b(?:tell(?:s|ing)?|told|says?|said|saying)\b", re.IGNORECASE),
    OPENER: re.compile(r"^(?:What|That|Whoever|Whatever)\b(?!')"),
}
LIMITS = {WHAT: 2.0, SPEECH: 1.0, OPENER: 0.5}
"""Occurrences for each 1,000 words."""
MEDIAN_WORDS = 18

WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*\"])|\n\s*\n|\n\s*[-*|]\s")
CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`|\{[{%].*?[%}]\}|\]\([^)]*\)|https?://\S+", re.DOTALL)
SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WHERE|FROM|SET)\b")
COMMENT = re.compile(r"^(.*?)(?<!\S)(?:#+|//|/\*) (.*)", re.MULTILINE)
"""A line's code and comment."""

LEAST_WORDS = 4
"""Shorter pieces of text are labels, which have no sentences to measure."""


@dataclass(frozen=True, slots=True)
class Passage:
    path: str
    line: int
    text: str

    @property
    def sentences(self) -> list[str]:
        prose = CODE.sub(" it ", self.text)
        pieces = (" ".join(piece.split()) for piece in SENTENCE_END.split(prose))
        return [piece.strip("#>|*- ") for piece in pieces if len(WORD.findall(piece)) >= LEAST_WORDS]


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a file: of Python its docstrings, comments, messages and the names of tests.

    Documents and mails are prose throughout. Of other files, the comments are.
    """
    source = path.read_text()
    name = str(path.relative_to(ROOT))
    if path.suffix == ".py":
        yield from (Passage(name, line, text) for line, text in [*_strings(source), *_comments(source)])
    elif path.suffix == ".html":
        yield Passage(name, 1, _text_of(source))
    elif path.suffix in (".md", ".txt"):
        yield Passage(name, 1, source)
    else:
        yield Passage(
            name, 1, "\n".join(f"{text}\n" if code.strip() else text for code, text in COMMENT.findall(source))
        )


def _strings(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    in_formats = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_value(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in in_formats:
            yield node.lineno, node.value if not SQL.search(node.value) else ""


def _value(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "it"


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments; lines that follow one another are one comment."""
    text, first, last = "", 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        if line != last + 1:
            yield first, text
            text, first = "", line
        text, last = f"{text} {token.string.lstrip('#! ')}", line
    yield first, text


def _text_of(html: str) -> str:
    translated = re.sub(r"\{% (?:block)?trans(?:late)? \"([^\"]*)\".*?%\}", r"\1.\n\n", html)
    parser, found = HTMLParser(), list[str]()
    parser.handle_data = found.append  # type: ignore[method-assign, assignment]
    parser.feed(translated)
    return "\n\n".join(found)


@dataclass(frozen=True, slots=True)
class Measure:
    words: int
    median: float
    found: dict[str, list[tuple[Passage, str]]]

    def rate(self, kind: str) -> float:
        return 1000 * len(self.found[kind]) / max(1, self.words)

    @property
    def exceeded(self) -> list[str]:
        kinds = [kind for kind, limit in LIMITS.items() if self.rate(kind) > limit]
        return kinds + (["median"] if self.median > MEDIAN_WORDS else [])


def measure(texts: Iterable[Passage]) -> Measure:
    words, lengths = 0, []
    found: dict[str, list[tuple[Passage, str]]] = {kind: [] for kind in WORDS}
    for passage in texts:
        for sentence in passage.sentences:
            length = len(WORD.findall(sentence))
            words += length
            lengths.append(length)
            for kind, pattern in WORDS.items():
                found[kind] += [(passage, sentence)] * len(pattern.findall(sentence))
    return Measure(words, statistics.median(lengths or [0]), found)


def files(patterns: Sequence[str]) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    names = (name for name in listed.stdout.split("\0") if name and not name.endswith(BINARY))
    return [ROOT / name for name in names if "/migrations/" not in name]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; default: every area")
    parser.add_argument("--list", action="store_true", help="print the sentences that count")
    options = parser.parse_args(arguments)
    areas = {"chosen": tuple(map(str, options.paths))} if options.paths else AREAS
    status = 0
    print(f"{'per 1,000 words':<16}{''.join(f'{kind:>10}' for kind in LIMITS)}{'median':>9}{'words':>9}")
    for area, patterns in areas.items():
        found = measure(passage for path in files(patterns) for passage in passages(path))
        rates = "".join(f"{found.rate(kind):>10.1f}" for kind in LIMITS)
        exceeded = f"  too many: {', '.join(found.exceeded)}" if found.exceeded else ""
        print(f"{area:<16}{rates}{found.median:>9.0f}{found.words:>9}{exceeded}")
        status |= bool(found.exceeded)
        if options.list:
            for kind, hits in found.found.items():
                print(*(f"  {kind}: {hit.path}:{hit.line}: {sentence}" for hit, sentence in hits), sep="\n")
    print(f"{'limit':<16}{''.join(f'{limit:>10.1f}' for limit in LIMITS.values())}{MEDIAN_WORDS:>9}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
