"""The page of all public names: ``python docs/rendering/interface.py`` writes it from the code.

It refuses to take out a name, unless it is called with ``--remove`` after the deprecation of the name has ended.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "webhooks_app"
PAGE = ROOT / "docs" / "reference" / "public-interface.md"
DESCRIBED = re.compile(r"^\.\. (?:automodule:: ([\w.]+)|(?:auto|py:)\w+:: (webhooks_app[\w.]*)\.\w+)", re.MULTILINE)
BLOCK = re.compile(r"{% block (\w+)")
URLS = ("api", "portal", "metrics", "probes")
HEADER = """# Public interface

All names that you can rely on, as the code has them: a test compares this page with it.
[Deprecations](../guides/upgrading.md#deprecations) says how a name ends.
"""


def interface() -> Mapping[str, Sequence[str]]:
    """Return the public names of the code, sorted, by heading."""
    found = {
        "Names to import": _importable(),
        "Settings": _settings(),
        "Commands with their options": _commands(),
        "Signals with their arguments": _signals(),
        "Names of URLs": _urls(),
        "Blocks of the customers' pages": _blocks(),
        "CSS variables": _found(r"(--webhooks-[\w-]+):", "static", "*.css"),
        "Metrics": _found(r'"(webhooks_\w+)"', "metrics", "collector.py"),
    }
    return {heading: sorted(set(names)) for heading, names in found.items()}


def names_on(page: str) -> Mapping[str, Sequence[str]]:
    """Return the names of a page, by heading."""
    sections = (section.partition("\n") for section in page.split("\n## ")[1:])
    return {heading: re.findall(r"^- `(.+)`$", names, re.MULTILINE) for heading, _, names in sections}


def missing(before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what was public before and is no longer."""
    return [name for heading, names in before.items() for name in names if name not in after.get(heading, ())]


def page_of(names: Mapping[str, Sequence[str]]) -> str:
    sections = (f"\n## {heading}\n\n" + "".join(f"- `{name}`\n" for name in each) for heading, each in names.items())
    return HEADER + "".join(sections)


def _importable() -> Iterator[str]:
    reference = (ROOT / "docs" / "python-api.md").read_text()
    modules = {module or named for module, named in DESCRIBED.findall(reference)}
    for name in {*modules, "webhooks_app.models"}:
        yield from (f"{name}.{each}" for each in import_module(name).__all__)


def _settings() -> Iterator[str]:
    from webhooks_app.conf import Settings

    return (f"WEBHOOKS_{name}" for name in Settings.__annotations__ if name.isupper())


def _commands() -> Iterator[str]:
    from django.core.management import load_command_class
    from django.core.management.base import BaseCommand

    def options_of(command: Any) -> set[str]:
        return {text for each in command.create_parser("manage.py", "")._actions for text in each.option_strings}

    common = options_of(BaseCommand())
    for path in (PACKAGE / "management" / "commands").glob("[a-z]*.py"):
        yield path.stem
        options = options_of(load_command_class("webhooks_app", path.stem))
        yield from (f"{path.stem} {option}" for option in options - common if option.startswith("--"))


def _signals() -> Iterator[str]:
    source = (PACKAGE / "signals.py").read_text()
    for name, text in re.findall(r'^(\w+) = Signal\([^)]*\)\n"""(.*?)"""', source, re.MULTILINE | re.DOTALL):
        yield from (f"{name} {argument}" for argument in re.findall(r"``(\w+)``", text))


def _urls() -> Iterator[str]:
    for module in (import_module(f"webhooks_app.{name}.urls") for name in URLS):
        prefix = f"{module.app_name}:" if hasattr(module, "app_name") else ""
        yield from (f"{prefix}{name}" for name in _named(module.urlpatterns))


def _named(patterns: Sequence[Any]) -> Iterator[str]:
    for each in patterns:
        if hasattr(each, "url_patterns"):
            yield from _named(each.url_patterns)
        elif each.name:
            yield each.name


def _blocks() -> Iterator[str]:
    folder = PACKAGE / "templates" / "webhooks_app" / "portal"
    for path in folder.rglob("*.html"):
        yield from (f"{path.relative_to(folder)} {block}" for block in BLOCK.findall(path.read_text()))


def _found(pattern: str, folder: str, files: str) -> Iterator[str]:
    for path in (PACKAGE / folder).rglob(files):
        yield from re.findall(pattern, path.read_text(), re.MULTILINE)


def main(arguments: Sequence[str]) -> str:
    """Write the page, and return the reason why not; "" if it is written."""
    names = interface()
    gone = missing(names_on(PAGE.read_text()), names) if PAGE.exists() else []
    if gone and "--remove" not in arguments:
        return f"These names are no longer in the code: {', '.join(gone)}. After their deprecation, pass --remove."
    PAGE.write_text(page_of(names), encoding="utf-8")
    return ""


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    import_module("django").setup()
    sys.exit(main(sys.argv[1:]))
