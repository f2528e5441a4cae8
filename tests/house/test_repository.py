"""The files that forges and other services read, checked against their published schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

import release
from webhooks_app import __version__

ROOT = Path(__file__).parents[2]
FORMS = ROOT / ".github" / "ISSUE_TEMPLATE"

pytestmark = pytest.mark.only_on("sqlite")


def read(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/*.yml"),
        ("github-workflows", ".github/workflows/*.yml"),
        ("dependabot", ".github/dependabot.yml"),
        ("gitlab-ci", ".gitlab-ci.yml"),
        ("citation-file-format", "CITATION.cff"),
        ("compose-spec", "deploy/compose.yaml"),
    ],
)
def test_files_follow_their_schema(schema: str, pattern: str) -> None:
    files = [str(path) for path in ROOT.glob(pattern)]

    checked = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{schema}", *files])

    assert files
    assert checked.exit_code == 0, checked.output


def test_a_bug_and_a_question_come_with_the_doctors_output() -> None:
    for name in ("bug", "question"):
        assert "webhooks_doctor" in (FORMS / f"{name}.yml").read_text()


def test_both_forges_run_the_same_checks() -> None:
    steps = read(".github/workflows/ci.yml")["jobs"]["checks"]["steps"]

    assert steps[-1]["run"] == "bash .ci/run"
    assert read(".gitlab-ci.yml")["checks"]["script"] == ["bash .ci/run"]


def test_a_release_uploads_what_is_tried_and_attested_after_a_person_agreed() -> None:
    jobs = read(".github/workflows/release.yml")["jobs"]
    steps = jobs["build"]["steps"]
    used = [step.get("uses", step.get("run", "")) for step in steps]
    packages = {entry["files"] for entry in jobs["upload"]["strategy"]["matrix"]["include"]}

    assert used.index("make release") < next(place for place, use in enumerate(used) if "attest" in use)
    assert any(step.get("with", {}).get("subject-checksums") == "dist/SHA256SUMS" for step in steps)
    assert jobs["upload"]["needs"] == "build"
    assert jobs["upload"]["environment"]
    assert packages == set(release.PACKAGES)
    assert jobs["upload"]["strategy"]["fail-fast"] is False


def test_updates_are_proposed_for_folders_that_have_requirements() -> None:
    files = {"pip": "requirements-dev.txt", "npm": "package.json", "github-actions": ".github/workflows/ci.yml"}

    for update in read(".github/dependabot.yml")["updates"]:
        assert (ROOT / update["directory"].strip("/") / files[update["package-ecosystem"]]).is_file()


def test_the_citation_names_this_version() -> None:
    assert read("CITATION.cff")["version"] == __version__
