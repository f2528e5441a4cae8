"""SECURITY.md mentions only existing links and settings, and this version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from webhooks_app import __version__
from webhooks_app.conf import setting_types

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
LINKS = sorted(set(re.findall(r"\]\(([^)]+)\)", PAGE)))
SETTINGS = sorted(set(re.findall(r"WEBHOOKS_[A-Z_]+", PAGE)))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_has_an_existing_page_and_heading(link: str) -> None:
    name, _, anchor = link.partition("#")

    assert (ROOT / name).is_file()
    assert not anchor or anchor in anchors(ROOT / name)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_mentioned_setting_exists(name: str) -> None:
    assert name in setting_types()


def test_every_setting_about_permitted_addresses_is_mentioned() -> None:
    guarding = {"WEBHOOKS_ALLOW_HTTP", "WEBHOOKS_ALLOWED_NETWORKS", "WEBHOOKS_EGRESS_PROXY", "WEBHOOKS_CA_BUNDLE"}

    assert guarding | {"WEBHOOKS_ENCRYPTION_KEYS"} <= set(SETTINGS)


@pytest.mark.parametrize("part", ["Report a vulnerability", "Threats and mitigations", "Duties of the host"])
def test_the_page_has_its_parts(part: str) -> None:
    assert f"## {part}\n" in PAGE


def test_the_readme_links_to_the_page() -> None:
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text()


def test_this_version_gets_security_fixes() -> None:
    supported = re.findall(r"^\| ([\d.]+), the latest minor version \| yes \|$", PAGE, re.MULTILINE)

    assert supported == [__version__.rpartition(".")[0]]
