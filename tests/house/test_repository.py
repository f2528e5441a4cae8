"""The files for forges: forms of issues, workflows and the citation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks_app import __version__

ROOT = Path(__file__).parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))

pytestmark = pytest.mark.only_on("sqlite")


def read(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_something(path: Path) -> None:
    form = read(path)

    asked = [each for each in form["body"] if each["type"] != "markdown"]
    assert {"name", "description"} < form.keys()
    assert all(each["attributes"]["label"] for each in asked)
    assert any(each.get("validations", {}).get("required") for each in asked)


def test_a_bug_and_a_question_come_with_the_doctors_output() -> None:
    assert {path.stem for path in FORMS} == {"bug", "idea", "question"}
    for name in ("bug", "question"):
        assert "webhooks_doctor" in (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text()


def test_both_forges_run_the_same_checks() -> None:
    steps = read(".github/workflows/ci.yml")["jobs"]["checks"]["steps"]

    assert steps[-1]["run"] == "bash .ci/run"
    assert read(".gitlab-ci.yml")["checks"]["script"] == ["bash .ci/run"]


def test_updates_are_proposed_for_folders_that_have_requirements() -> None:
    files = {"pip": "requirements-dev.txt", "npm": "package.json", "github-actions": ".github/workflows/ci.yml"}

    for update in read(".github/dependabot.yml")["updates"]:
        assert (ROOT / update["directory"].strip("/") / files[update["package-ecosystem"]]).is_file()


def test_the_citation_names_this_version() -> None:
    assert read("CITATION.cff")["version"] == __version__
