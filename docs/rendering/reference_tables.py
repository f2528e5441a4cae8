"""Reference tables: each row of settings, checks and commands has an anchor, and stacks on narrow screens."""

from __future__ import annotations

from docutils import nodes

PAGES = ("settings", "checks", "commands")


def mark_reference_tables(doctree: nodes.document, page: str) -> None:
    """Give each row an anchor for the names in its first cell, and the tables the class ``reference``."""
    if page.rpartition("/")[2] not in PAGES:
        return
    for table in doctree.findall(nodes.table):
        rows = [row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)]
        if not all(isinstance(row[0].next_node(nodes.literal), nodes.literal) for row in rows):
            continue
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
