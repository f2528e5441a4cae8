"""The build backend: flit's, with links that work outside the checkout.

The README links to files beside it. An index shows the README without them, so the distribution has absolute links if
``WEBHOOKS_PROJECT_URL`` names the published repository, on GitHub or GitLab, and otherwise no links to files.
hatch-fancy-pypi-readme replaces links too, but cannot read the address from the environment.
"""

from __future__ import annotations

import os
import re
from typing import Any

from flit_core import common
from flit_core.buildapi import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

VARIABLE = "WEBHOOKS_PROJECT_URL"
PAGES = {"Source": "", "Documentation": "/blob/HEAD/docs/index.md", "Changelog": "/blob/HEAD/CHANGELOG.md"}
PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://)([^)\s]+)\)")


def project_url() -> str:
    """Return the repository's address, or "" if it is not published. Raises ValueError if it is not an address."""
    url = os.environ.get(VARIABLE, "").rstrip("/")
    if url and not re.fullmatch(r"https://[\w.-]+(/[\w.~-]+)+", url):
        raise ValueError(f"{VARIABLE} is {url!r}, but must be the address of a repository: https://HOST/OWNER/NAME.")
    return url


def with_links(description: str, url: str) -> str:
    """Return the description with links to the files at ``url``, or without links and pictures if it is empty."""
    if not url:
        return LINK.sub(r"\1", PICTURE.sub("", description))
    description = PICTURE.sub(rf"![\1]({url}/raw/HEAD/\2)", description)
    return LINK.sub(rf"[\1]({url}/blob/HEAD/\2)", description)


class Metadata(common.Metadata):
    """flit's metadata, with the links of the published repository."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        url = project_url()
        self.description = with_links(self.description, url)
        self.project_urls = [f"{label}, {url}{path}" for label, path in PAGES.items() if url]


common.Metadata = Metadata
