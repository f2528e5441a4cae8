"""Distribution of sections over pages of limited size."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from .outline import Block, Code, OutlineError, Paragraph, Run, Section, Table

MAX_PAGES = 300
LINES_A_PAGE = 13
CHARACTERS_A_LINE = 78
INDENT_CHARACTERS = 4
TABLE_LINES_A_PAGE = 15
CHARACTERS_A_TABLE_LINE = 96


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One page. A page without blocks is a divider. A table is always the only block of its page."""

    heading: str
    blocks: tuple[Block, ...] = ()
    is_continued: bool = False


def paginate(title: str, sections: Sequence[Section]) -> list[Page]:
    """Return the pages that follow the title page. Raises OutlineError for too many."""
    pages: list[Page] = []
    for section in sections:
        heading = section.heading or title
        groups = list(_groups(section.blocks))
        if not groups and heading == title:
            continue  # The title page already shows it.
        pages += [Page(heading=heading, blocks=group, is_continued=n > 0) for n, group in enumerate(groups or [()])]
    if len(pages) >= MAX_PAGES:
        raise OutlineError(
            f"The outline results in {len(pages) + 1} pages, but at most {MAX_PAGES} are allowed. Shorten it."
        )
    return pages


def _groups(blocks: Sequence[Block]) -> Iterator[tuple[Block, ...]]:
    """Group blocks that fit on one page."""
    group: list[Block] = []
    lines_left = LINES_A_PAGE
    for block in chain.from_iterable(map(_pieces, blocks)):
        needed = _lines(block)
        if group and (needed > lines_left or isinstance(block, Table) or isinstance(group[-1], Table)):
            yield tuple(group)
            group, lines_left = [], LINES_A_PAGE
        group.append(block)
        lines_left -= needed
    if group:
        yield tuple(group)


def _lines(block: Block) -> int:
    if isinstance(block, Code):
        return len(block.lines)
    if isinstance(block, Table):
        return LINES_A_PAGE
    return max(1, math.ceil((len(block.text) + INDENT_CHARACTERS * block.level) / CHARACTERS_A_LINE))


def _pieces(block: Block) -> Iterator[Block]:
    """Split a block that is longer than a page."""
    if isinstance(block, Code):
        for start in range(0, len(block.lines), LINES_A_PAGE):
            yield Code(lines=block.lines[start : start + LINES_A_PAGE])
    elif isinstance(block, Table):
        yield from _tables(block)
    else:
        yield from _paragraphs(block)


def _tables(table: Table) -> Iterator[Table]:
    """Split a table between rows and repeat its header in each part."""
    header, *others = table.rows
    rows = [header]
    lines_left = TABLE_LINES_A_PAGE - _row_lines(header)
    for row in others:
        if len(rows) > 1 and _row_lines(row) > lines_left:
            yield Table(rows=tuple(rows))
            rows, lines_left = [header], TABLE_LINES_A_PAGE - _row_lines(header)
        rows.append(row)
        lines_left -= _row_lines(row)
    yield Table(rows=tuple(rows))


def _row_lines(row: Sequence[str]) -> int:
    width = max(1, CHARACTERS_A_TABLE_LINE // len(row))
    return max(1, *(math.ceil(len(cell) / width) for cell in row))


def _paragraphs(paragraph: Paragraph) -> Iterator[Paragraph]:
    limit = LINES_A_PAGE * (CHARACTERS_A_LINE - INDENT_CHARACTERS * paragraph.level)
    if len(paragraph.text) <= limit:
        yield paragraph
        return
    runs: list[Run] = []
    length = 0
    for word in _words(paragraph.runs, limit):
        if runs and length + len(word.text) > limit:
            yield replace(paragraph, runs=tuple(runs))
            paragraph, runs, length = replace(paragraph, marker=""), [], 0
        runs.append(word)
        length += len(word.text)
    yield replace(paragraph, runs=tuple(runs))


def _words(runs: Sequence[Run], limit: int) -> Iterator[Run]:
    for run in runs:
        for word in re.findall(r"\S+\s*|\s+", run.text):
            for start in range(0, len(word), limit):
                yield replace(run, text=word[start : start + limit])
