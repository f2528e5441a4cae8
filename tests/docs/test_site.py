"""The documentation site needs no network, and its reference contains every public name.

Its build fails on any warning of Sphinx, such as for a page outside the navigation or a link to a missing heading.
Sphinx does not compare the reference with ``__all__``, with the rows of our tables or with the signals.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.dispatch import Signal

from docs.rendering import MARK, RENDERERS
from docs.rendering.rest_api import operations
from tests.docs.pages import DOCS, blocks
from tests.support.once import made_once
from webhooks_app import signals

ROOT = Path(__file__).parents[2]
REFERENCE = (DOCS / "python-api.md").read_text()
MODULES = set(re.findall(r"^\.\. automodule:: ([\w.]+)", REFERENCE, re.MULTILINE))
NAMES = re.findall(r"^\.\. (?!automodule)(?:auto|py:)\w+:: (webhooks_app[\w.]*)\.(\w+)", REFERENCE, re.MULTILINE)
"""The modules that the reference describes, and single names with their modules."""
DOCUMENTED = MODULES | {module for module, _ in NAMES} | {"webhooks_app.models"}
IMPORT = re.compile(r"^ *from (webhooks_app[\w.]*) import ([\w, ]+)", re.MULTILINE)

# The processes would wait for the one that builds the site.
pytestmark = pytest.mark.xdist_group("the documentation site")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "site", _build) / "html"


def _build(folder: Path) -> None:
    options = ["--quiet", "--fail-on-warning", "--builder", "html", "--doctree-dir", str(folder / "doctrees")]
    subprocess.run([sys.executable, "-m", "sphinx", *options, "docs", str(folder / "html")], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        pytest.param("checks", r"webhooks_app\.\w+", id="checks"),
        pytest.param("settings", r"WEBHOOKS_\w+", id="settings"),
        pytest.param("commands", r"\w+_\w+", id="commands"),
    ],
)
def test_each_row_of_a_reference_has_an_anchor(site: Path, page: str, name: str) -> None:
    names = re.findall(rf"^\| `({name})[` ]", (DOCS / f"{page}.md").read_text(), re.MULTILINE)
    rows = set(re.findall(r'<tr[^>]* id="([\w-]+)"', (site / f"{page}.html").read_text()))

    assert len(names) > 15
    assert {re.sub("_app[.]|_", "-", each).lower() for each in names} - rows == set()


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


def test_each_generated_part_is_on_one_page() -> None:
    marks = [mark for path in DOCS.rglob("*.md") for mark in MARK.findall(path.read_text())]

    assert sorted(marks) == sorted(RENDERERS)


def test_each_operation_of_the_rest_api_has_an_example_in_three_languages(site: Path) -> None:
    button = re.compile(r'<input type="radio" name="([\w-]+)" id="([\w-]+)"( checked)?><label for="\2">(\w+)</label>')
    pages = [button.findall(page.read_text()) for page in site.glob("reference/rest-api-*.html")]

    groups = [found[start : start + 3] for found in pages for start in range(0, len(found), 3)]
    assert len(groups) == len(list(operations()))
    for group in groups:
        assert len({name for name, *_ in group}) == 1
        assert [(label, checked) for *_, checked, label in group] == [
            ("curl", " checked"),
            ("Python", ""),
            ("JavaScript", ""),
        ]


QUESTIONS = {
    "send only to one customer": "one-customer",
    "change retry schedule": "retry-schedule",
    "why was my webhook disabled": "disabled-webhook",
    "verify in Go": "verify-in-go",
    "run it on Kubernetes": "kubernetes",
    "Kubernetes": "kubernetes",
    "how do I upgrade": "upgrade",
    "how much can my machine send": "capacity-and-load-test",
    "load test": "capacity-and-load-test",
    "load tests": "capacity-and-load-test",
    "delete a customer's data": "customers-data",
    "RabbitMQ": "rabbitmq",
    "send from a service that is not Django": "another-service",
    "get an event while I develop": "development",
    "what happens when Redis dies": "redis-outage",
}
"""What a user types into the search, and the page with the answer, below ``questions``."""

SEARCH = """
const { readFileSync } = require("fs");
const { runInThisContext } = require("vm");
globalThis.window = globalThis;
globalThis.SPHINX_HIGHLIGHT_ENABLED = false;
globalThis._ready = () => {};
const element = { dataset: { content_root: "" } };
globalThis.document = { documentElement: element, getElementById: () => element, addEventListener() {} };
const load = (name) => runInThisContext(readFileSync(`${process.argv[1]}/${name}`, "utf8"));
["_static/language_data.js", "_static/searchtools.js", "searchindex.js"].forEach(load);
const first = (query) => Search._performSearch(...Search._parseQuery(query)).at(-1)?.[0];
console.log(JSON.stringify(process.argv.slice(2).map(first)));
"""


def test_the_search_finds_the_answer_to_each_question(site: Path) -> None:
    command = ["node", "-e", SEARCH, str(site), *QUESTIONS]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert dict(zip(QUESTIONS, found, strict=True)) == {query: f"questions/{page}" for query, page in QUESTIONS.items()}


def test_each_question_is_two_clicks_from_the_index() -> None:
    listed = re.findall(r"^questions/([\w-]+)$", (DOCS / "questions.md").read_text(), re.MULTILINE)

    assert "(questions.md)" in (DOCS / "index.md").read_text()
    assert set(listed) == set(QUESTIONS.values()) == {path.stem for path in (DOCS / "questions").glob("*.md")}


def test_no_page_loads_anything_from_the_network(site: Path) -> None:
    address = re.compile(r'<(?:script|img|iframe|link)\b[^>]* (?:src|href)="((?:https?:)?//[^"]+)"')

    assert {found for page in site.rglob("*.html") for found in address.findall(page.read_text())} == set()
