"""Find word-for-word translations in docstrings, comments, messages, templates and documents.

``python -m tests.house.prose`` prints each one with its place and a correction, and exits with 1 if there is one. With
paths it reads those files. The list is ``tests/house/calques.txt``.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALQUES = Path(__file__).with_name("calques.txt")
FILES = (
    "*.py",
    "*.md",
    "*.html",
    "*.js",
    "*.css",
    "*/templates/*",
    "Makefile",
    ".ci/run",
    "pyproject.toml",
    "deploy/*",
)
"""Patterns of `git ls-files`."""
BINARY = (".png", ".svg", ".mo")

CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`|\{[{%].*?[%}]\}|\]\([^)]*\)|https?://\S+", re.DOTALL)
SQL = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WHERE|FROM|SET)\b")
COMMENT = re.compile(r"^(.*?)(?<!\S)(?:#+|//|/\*) (.*)", re.MULTILINE)
"""A line's code and comment."""


@dataclass(frozen=True, slots=True)
class Passage:
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Calque:
    pattern: re.Pattern[str]
    instead: str

    @classmethod
    def parse(cls, line: str) -> Calque:
        phrase, instead = line.split(" => ")
        words = re.sub(r" ", r"\\s+", phrase)
        return cls(re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), instead)


def calques() -> list[Calque]:
    lines = CALQUES.read_text().splitlines()
    return [Calque.parse(line) for line in lines if line and not line.startswith("#")]


def find(texts: Iterable[Passage], calques: Sequence[Calque]) -> Iterator[str]:
    """Yield the place of each calque, the calque, and a correction."""
    for passage in texts:
        prose = CODE.sub(lambda code: "it" + "\n" * code[0].count("\n"), passage.text)
        for calque in calques:
            for match in calque.pattern.finditer(prose):
                line = passage.line + prose.count("\n", 0, match.start())
                found = " ".join(match[0].split())
                yield f"{passage.path}:{line}: instead of “{found}” write “{calque.instead}”"


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


def files(patterns: Sequence[str]) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    names = (name for name in listed.stdout.split("\0") if name and not name.endswith(BINARY))
    return [ROOT / name for name in names if "/migrations/" not in name and (ROOT / name).exists()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.house.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", help="files or folders; default: all")
    chosen = parser.parse_args(arguments).paths or FILES
    found = list(find((passage for path in files(chosen) for passage in passages(path)), calques()))
    print(*found, sep="\n") if found else print("No word-for-word translation was found.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
