"""The documentation site builds without warnings, and its reference contains every public name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import webhooks_app
from webhooks_app import exceptions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "--builder", "html", "--doctree-dir", str(folder / "doctrees")]
    subprocess.run([sys.executable, "-m", "sphinx", *options, "docs", str(folder / "html")], cwd=ROOT, check=True)
    return folder / "html"


def test_each_page_is_in_the_navigation(site: Path) -> None:
    navigation = (site / "index.html").read_text()

    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert {page for page in pages if f'href="{page}.html"' not in navigation} == set()


def test_the_reference_describes_each_public_name(site: Path) -> None:
    reference = (site / "python-api.html").read_text()

    names = {f"webhooks_app.{name}" for name in webhooks_app.__all__} - {
        "webhooks_app.__version__",
        "webhooks_app.Event",
    }
    errors = {f"webhooks_app.exceptions.{name}" for name in vars(exceptions) if name.endswith("Error")}
    assert {name for name in names | errors if f'id="{name}"' not in reference} == set()


def test_the_search_works_without_a_server(site: Path) -> None:
    assert "idempotency" in (site / "searchindex.js").read_text().lower()
