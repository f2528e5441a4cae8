"""The documentation site builds without warnings or the network, and its reference contains every public name."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from django.dispatch import Signal

from tests.docs.pages import DOCS, blocks, names
from tests.support.once import made_once
from webhooks_app import signals

ROOT = Path(__file__).parents[2]
REFERENCE = (DOCS / "python-api.md").read_text()
MODULES = set(re.findall(r"^\.\. automodule:: ([\w.]+)", REFERENCE, re.MULTILINE))
NAMES = re.findall(r"^\.\. (?!automodule)(?:auto|py:)\w+:: (webhooks_app[\w.]*)\.(\w+)", REFERENCE, re.MULTILINE)
"""The modules that the reference describes, and single names with their modules."""
DOCUMENTED = MODULES | {module for module, _ in NAMES} | {"webhooks_app.models"}
IMPORT = re.compile(r"^ *from (webhooks_app[\w.]*) import ([\w, ]+)", re.MULTILINE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "site", _build) / "html"


def _build(folder: Path) -> None:
    options = ["--quiet", "--fail-on-warning", "--builder", "html", "--doctree-dir", str(folder / "doctrees")]
    subprocess.run([sys.executable, "-m", "sphinx", *options, "docs", str(folder / "html")], cwd=ROOT, check=True)


def test_each_page_is_in_the_navigation(site: Path) -> None:
    navigation = (site / "index.html").read_text()

    pages = {name.removesuffix(".md") for name in names()} - {"index"}
    assert {page for page in pages if f'href="{page}.html"' not in navigation} == set()


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("checks", r"^\| `webhooks_app\.(\w+)` \|"),
        ("settings", r"^\| `WEBHOOKS_(\w+)` \|"),
        ("commands", r"^\| `(\w+_\w+)[` ]"),
    ],
)
def test_each_row_of_the_reference_has_an_anchor(site: Path, page: str, names: str) -> None:
    expected = re.findall(names, (DOCS / f"{page}.md").read_text(), re.MULTILINE)
    prefix = "" if page == "commands" else "webhooks-"
    html = (site / f"{page}.html").read_text()

    assert len(expected) > 15
    anchors = {f"{prefix}{name.lower().replace('_', '-')}" for name in expected}
    assert {anchor for anchor in anchors if f'id="{anchor}"' not in html} == set()


@pytest.mark.parametrize("module", sorted(DOCUMENTED - {"webhooks_app.models"}))
def test_the_reference_describes_each_public_name_of_a_module(site: Path, module: str) -> None:
    reference = (site / "python-api.html").read_text()

    public = set(importlib.import_module(module).__all__) - {"__version__"}
    assert {name for name in public if not re.search(rf'id="webhooks_app\.(?:\w+\.)*{name}"', reference)} == set()


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_described_name_is_public(module: str, name: str) -> None:
    assert name in importlib.import_module(module).__all__


def test_pages_import_only_public_names() -> None:
    found = {
        (module, name.strip())
        for block in blocks("python")
        for module, imported in IMPORT.findall(block.code)
        for name in imported.split(",")
        if name.strip()
    }

    assert {f"{module}.{name}" for module, name in found if not is_public(module, name)} == set()


def is_public(module: str, name: str) -> bool:
    """Return True for a module of the reference, and for a public name of one."""
    if f"{module}.{name}" in DOCUMENTED:
        return True
    return module in DOCUMENTED and name in importlib.import_module(module).__all__


def test_the_table_of_signals_has_each_signal_with_its_arguments() -> None:
    page = (DOCS / "reference" / "signals.md").read_text()
    source = Path(signals.__file__).read_text()

    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", page, re.MULTILINE))
    sent = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    assert rows.keys() == sent
    for name in sent:
        docstring = re.search(rf'^{name} = Signal\([^)]*\)\n"""(.*?)"""', source, re.MULTILINE | re.DOTALL)[1]
        arguments = set(re.findall(r"``(\w+)``", docstring))
        assert arguments == set(re.findall(r"`(\w+)`", rows[name])), name


def test_each_address_of_the_api_is_in_the_reference(site: Path) -> None:
    document = json.loads((site / "openapi.json").read_text())
    page = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "rest-api.html").read_text()))

    called = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert {each for each in called if each not in page} == set()


def test_each_table_is_in_the_reference(site: Path) -> None:
    from django.apps import apps

    page = (site / "reference" / "database-tables.html").read_text()

    tables = {model._meta.db_table for model in apps.get_app_config("webhooks_app").get_models()}
    assert {table for table in tables if table not in page} == set()


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("settings", r"<code>(WEBHOOKS_\w+)</code>"),
        ("checks", r"<code>(webhooks_app\.[EW]\d+)</code>"),
        ("commands", r"<code>(\w+)[^<]*</code>"),
    ],
)
def test_each_row_of_a_reference_has_an_anchor(site: Path, page: str, name: str) -> None:
    html = re.sub(
        r"<code [^>]*>|</?span[^>]*>",
        lambda tag: "<code>" if "code" in tag[0] else "",
        (site / f"{page}.html").read_text(),
    )

    rows = re.findall(rf"<tr([^>]*)><td><p>{name}", html)
    assert rows
    assert [each for attributes, each in rows if f'id="{anchor_of(each)}"' not in attributes] == []


def anchor_of(name: str) -> str:
    return name.replace("webhooks_app.", "webhooks_").lower().replace("_", "-").replace(".", "-")


def test_the_search_works_without_a_server(site: Path) -> None:
    assert "idempotency" in (site / "searchindex.js").read_text().lower()


def test_no_page_loads_anything_from_the_network(site: Path) -> None:
    loaded = {
        address
        for page in site.rglob("*.html")
        for address in re.findall(
            r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', page.read_text()
        )
        for address in address
        if address.startswith(("http:", "https:", "//"))
    }

    assert loaded == set()
