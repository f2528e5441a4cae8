"""One name for one thing: a public name that two modules define has to be chosen again."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "webhooks_app"

ALLOWED = {
    "Command": "Django finds commands by this name",
    "M": "a type variable",
    "NewEvent": "the name in the OpenAPI document is that of the class, and Python's is public",
    "T": "a type variable",
    "app_name": "Django finds the namespace of URLs by this name",
    "logger": "as everywhere",
    "register": "Django finds template tags by this name",
    "urlpatterns": "Django finds URLs by this name",
    "webhooks": "the fixture for the tests of hosts",
}

LEFT = set(Path(__file__).with_name("names.txt").read_text().split())
"""Names from before this rule. Take one out when you rename it, and add none."""


def names_of(module: ast.Module) -> Iterator[str]:
    """Yield the public names that a module defines."""
    for node in module.body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names = [node.name]
            case ast.Assign():
                names = [each.id for each in node.targets if isinstance(each, ast.Name)]
            case ast.AnnAssign(target=ast.Name()):
                names = [node.target.id]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def test_no_two_modules_define_the_same_public_name() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts]
    found = Counter(name for path in paths for name in set(names_of(ast.parse(path.read_text()))))

    assert {name for name, number in found.items() if number > 1} - ALLOWED.keys() - LEFT == set()


def test_a_definition_is_recognized() -> None:
    module = ast.parse("A = 1\nB: int = 2\nclass C: ...\ndef d(): ...\nasync def e(): ...\n_f = 1\nimport g\n")

    assert list(names_of(module)) == ["A", "B", "C", "d", "e"]
