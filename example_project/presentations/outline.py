"""Parser of Markdown outlines into sections, each with a heading and its content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

MAX_LEVEL = 4


class OutlineError(ValueError):
    """The outline cannot become a presentation. The message is for its author."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A stretch of text in one style."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    link: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    runs: tuple[Run, ...]
    marker: Literal["", "bullet", "number"] = ""
    number: int = 1
    level: int = 0

    @property
    def text(self) -> str:
        return "".join(run.text for run in self.runs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of cells, the first row being the header."""

    rows: tuple[tuple[str, ...], ...]


Block = Paragraph | Code | Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading with its blocks. The heading of content before the first heading is empty."""

    heading: str
    blocks: tuple[Block, ...]


def parse_outline(markdown: str) -> list[Section]:
    """Return the outline's sections in order. Raises OutlineError if it has no headings."""
    root = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(markdown))
    sections: list[tuple[str, list[Block]]] = [("", [])]
    for node in root.children:
        if node.type == "heading":
            sections.append((_plain(node), []))
        else:
            sections[-1][1].extend(_blocks(node))
    if len(sections) == 1:
        raise OutlineError("The outline has no headings, but each page needs one. Start a line with # for a heading.")
    return [Section(heading=heading, blocks=tuple(blocks)) for heading, blocks in sections if heading or blocks]


def _blocks(node: SyntaxTreeNode, level: int = 0) -> Iterator[Block]:
    if node.type == "paragraph":
        if runs := tuple(_runs(node)):
            yield Paragraph(runs=runs, level=level)
    elif node.type in ("bullet_list", "ordered_list"):
        yield from _list(node, level)
    elif node.type == "blockquote":
        for block in _children(node, level):
            yield _italic(block)
    elif node.type in ("fence", "code_block"):
        yield Code(lines=tuple(node.content.rstrip("\n").expandtabs(4).split("\n")))
    elif node.type == "table":
        yield Table(rows=tuple(_rows(node)))
    elif node.type == "heading":  # Inside a list or a quotation, headings do not start a section.
        yield Paragraph(runs=(Run(text=_plain(node), bold=True),), level=level)


def _children(node: SyntaxTreeNode, level: int) -> Iterator[Block]:
    for child in node.children:
        yield from _blocks(child, level)


def _list(node: SyntaxTreeNode, level: int) -> Iterator[Block]:
    marker: Literal["bullet", "number"] = "number" if node.type == "ordered_list" else "bullet"
    first_number = int(node.attrs.get("start", 1))
    for number, item in enumerate(node.children, start=first_number):
        is_marked = False
        for child in item.children:
            is_list = child.type in ("bullet_list", "ordered_list")
            for block in _blocks(child, min(level + 1, MAX_LEVEL) if is_list else level):
                if isinstance(block, Paragraph) and not is_list and not is_marked:
                    is_marked = True
                    block = replace(block, marker=marker, number=number)  # noqa: PLW2901
                yield block


def _italic(block: Block) -> Block:
    if isinstance(block, Paragraph):
        return replace(block, runs=tuple(replace(run, italic=True) for run in block.runs))
    return block


def _rows(table: SyntaxTreeNode) -> Iterator[tuple[str, ...]]:
    for part in table.children:
        for row in part.children:
            yield tuple(_plain(cell) for cell in row.children)


def _plain(node: SyntaxTreeNode) -> str:
    return "".join(run.text for run in _runs(node)).strip()


def _runs(node: SyntaxTreeNode) -> Iterator[Run]:
    """Return the styled text inside a node, with descriptions in place of pictures."""
    for child in node.children:
        if child.type in ("text", "code_inline"):
            if child.content:
                yield Run(text=child.content, code=child.type == "code_inline")
        elif child.type in ("softbreak", "hardbreak"):
            yield Run(text=" ")
        else:
            yield from _styled(child, tuple(_runs(child)))


def _styled(node: SyntaxTreeNode, runs: Sequence[Run]) -> Iterator[Run]:
    for run in runs:
        if node.type == "strong":
            yield replace(run, bold=True)
        elif node.type == "em":
            yield replace(run, italic=True)
        elif node.type == "link":
            yield replace(run, link=str(node.attrs.get("href", "")))
        else:
            yield run
