"""Sphinx extension for the generated parts of pages and for the reference.

A page has a line such as ``<!-- generated: rest_api -->``, which is replaced by Markdown of the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes

from .database import database_tables
from .events import event_catalogue
from .languages import Languages
from .raises import with_fields
from .release_notes import release_notes
from .rest_api import PAGES, openapi_document, rest_api, rest_api_page, rest_api_requests, rest_api_responses
from .tables import Translator, mark_tables

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
RENDERERS: Mapping[str, Callable[[], str]] = {
    "database_tables": database_tables,
    "event_catalogue": event_catalogue,
    "release_notes": release_notes,
    "rest_api": rest_api,
    "rest_api_requests": rest_api_requests,
    "rest_api_responses": rest_api_responses,
    **{name: partial(rest_api_page, page) for name, page in PAGES.items()},
}


def render(text: str) -> str:
    """Return the text of a page with its generated parts."""
    return MARK.sub(lambda mark: RENDERERS[mark[1]](), text)


def _on_source_read(app: Any, name: str, source: list[str]) -> None:
    source[0] = render(source[0])


def _on_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = with_fields(lines)


def _on_doctree(app: Any, doctree: nodes.document) -> None:
    """Mark tables, and remove the dash behind an error without an explanation."""
    mark_tables(doctree, app.env.docname)
    for field in doctree.findall(nodes.field_body):
        for paragraph in field.findall(nodes.paragraph):
            if paragraph.astext().endswith((" -- ", " \u2013 ")):
                del paragraph[1:]


def _on_build_finished(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        text = json.dumps(openapi_document(), indent=2, ensure_ascii=False)
        Path(app.outdir, "openapi.json").write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.set_translator("html", Translator)
    app.add_directive("languages", Languages)
    app.connect("source-read", _on_source_read)
    app.connect("autodoc-process-docstring", _on_docstring)
    app.connect("doctree-read", _on_doctree)
    app.connect("build-finished", _on_build_finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
