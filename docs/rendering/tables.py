"""Tables: rows stack on narrow screens, and each row of settings, checks and commands has an anchor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docutils import nodes
from sphinx.writers.html5 import HTML5Translator

PAGES = ("settings", "checks", "commands")

NARROW = 28
"""Characters of a row for which a narrow screen has room beside each other."""


class Translator(HTML5Translator):
    """Writes the heading of a cell's column into the cell, for the stylesheet to show it in a stacked row."""

    def starttag(self, node: Any, *args: Any, **attributes: Any) -> str:
        if isinstance(node, nodes.entry) and node.get("heading"):
            attributes["data-heading"] = node["heading"]
        return super().starttag(node, *args, **attributes)


def mark_tables(doctree: nodes.document, page: str) -> None:
    """Give wide tables the class ``stacked``, and rows of the reference an anchor for the names in their first cell."""
    for table in doctree.findall(nodes.table):
        headings = [entry.astext() for head in table.findall(nodes.thead) for entry in head.findall(nodes.entry)]
        rows = [row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)]
        if _width(headings, rows) > NARROW:
            _stack(table, headings, rows)
        is_named = all(isinstance(row[0].next_node(nodes.literal), nodes.literal) for row in rows)
        if page.rpartition("/")[2] in PAGES and is_named:
            _add_anchors(doctree, table, rows)


def _width(headings: Sequence[str], rows: Sequence[nodes.row]) -> int:
    """Return the number of characters in the longest cells of all columns together."""
    lines = [headings, *([entry.astext() for entry in row] for row in rows)]
    return sum(max(map(len, column)) for column in zip(*lines, strict=False))


def _stack(table: nodes.table, headings: Sequence[str], rows: Sequence[nodes.row]) -> None:
    table["classes"].append("stacked")
    for row in rows:
        for heading, entry in list(zip(headings, row, strict=False))[1:]:
            entry["heading"] = heading


def _add_anchors(doctree: nodes.document, table: nodes.table, rows: Sequence[nodes.row]) -> None:
    table["classes"].append("reference")
    for row in rows:
        anchors = [anchor_of(name.astext()) for name in row[0].findall(nodes.literal)]
        row["ids"] += [anchor for anchor in anchors if anchor and anchor not in doctree.ids]
        for anchor in row["ids"]:
            doctree.ids[anchor] = row


def anchor_of(name: str) -> str:
    """Return ``webhooks-e004`` for ``webhooks_app.E004``, and a command's anchor without its arguments."""
    words = name.removeprefix("manage.py ").split()
    return nodes.make_id(words[0].replace("webhooks_app.", "webhooks_")) if words else ""
