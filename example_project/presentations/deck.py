"""Conversion of pages to a PowerPoint file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from pptx import Presentation
from pptx.oxml.ns import qn
from pptx.oxml.xmlchemy import OxmlElement
from pptx.util import Emu, Inches, Pt

from .layout import Page
from .outline import Code, Paragraph, Run, Table

TITLE_LAYOUT, CONTENT_LAYOUT, SECTION_LAYOUT, TABLE_LAYOUT = 0, 1, 2, 5
"""Positions of the layouts in python-pptx's own template."""

WIDTH, HEIGHT = Inches(13.333), Inches(7.5)
TEXT_SIZE, CODE_SIZE, CELL_SIZE = Pt(20), Pt(16), Pt(14)
MONOSPACE = "Courier New"


@dataclass(frozen=True, kw_only=True, slots=True)
class Deck:
    content: bytes
    pages: int


def make_deck(
    title: str, pages: Sequence[Page], *, subtitle: str = "", checkpoint: Callable[[], object] = lambda: None
) -> Deck:
    """Return a presentation with a title page and these pages.

    ``checkpoint`` is called before each page and may raise to stop the work.
    """
    presentation = _wide_presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[TITLE_LAYOUT])
    slide.shapes.title.text = title
    slide.placeholders[1].text = subtitle
    for page in pages:
        checkpoint()
        _add_page(presentation, page)
    presentation.core_properties.title = title[:255]
    content = BytesIO()
    presentation.save(content)
    return Deck(content=content.getvalue(), pages=len(presentation.slides))


def _wide_presentation() -> Any:
    """Return an empty presentation in 16:9. The template is 4:3, so its shapes are moved and scaled."""
    presentation = Presentation()
    ratio = WIDTH / presentation.slide_width
    presentation.slide_width, presentation.slide_height = WIDTH, HEIGHT
    for holder in (presentation.slide_master, *presentation.slide_layouts):
        for shape in holder.placeholders:
            if (
                shape.element.spPr.find(qn("a:xfrm")) is not None
            ):  # Other shapes inherit their position from the master.
                shape.left, shape.width = Emu(int(shape.left * ratio)), Emu(int(shape.width * ratio))
    return presentation


def _add_page(presentation: Any, page: Page) -> None:
    table = next((block for block in page.blocks if isinstance(block, Table)), None)
    index = TABLE_LAYOUT if table else CONTENT_LAYOUT if page.blocks else SECTION_LAYOUT
    slide = presentation.slides.add_slide(presentation.slide_layouts[index])
    slide.shapes.title.text = f"{page.heading} (continued)" if page.is_continued else page.heading
    if table:
        _add_table(slide, table)
    elif page.blocks:
        _fill(slide.placeholders[1].text_frame, page)
    else:
        empty = slide.placeholders[1].element
        empty.getparent().remove(empty)


def _fill(frame: Any, page: Page) -> None:
    """Write the blocks into the page's text frame, which already has its first paragraph."""
    free = [frame.paragraphs[0]]
    for block in page.blocks:
        if isinstance(block, Paragraph):
            _write(free.pop() if free else frame.add_paragraph(), block)
        elif isinstance(block, Code):
            for line in block.lines:
                _write_code(free.pop() if free else frame.add_paragraph(), line)


def _write(target: Any, paragraph: Paragraph) -> None:
    target.level = paragraph.level
    _mark(target, paragraph)
    for run in paragraph.runs:
        _add_run(target, run)


def _write_code(target: Any, line: str) -> None:
    _mark(target, None)
    run = _add_run(target, Run(text=line, code=True))
    run.font.size = CODE_SIZE


def _add_run(target: Any, run: Run) -> Any:
    written = target.add_run()
    written.text = run.text
    written.font.size = TEXT_SIZE
    if run.bold:
        written.font.bold = True
    if run.italic:
        written.font.italic = True
    if run.code:
        written.font.name = MONOSPACE
    if run.link.startswith(("http://", "https://", "mailto:")):
        written.hyperlink.address = run.link
    return written


def _mark(target: Any, paragraph: Paragraph | None) -> None:
    """Number a paragraph or remove its bullet. python-pptx has no API for this."""
    if paragraph is not None and paragraph.marker == "bullet":
        return  # The template's bullet.
    properties = target._p.get_or_add_pPr()  # noqa: SLF001
    if paragraph is not None and paragraph.marker == "number":
        mark = OxmlElement("a:buAutoNum")
        mark.set("type", "arabicPeriod")
        if paragraph.number != 1:
            mark.set("startAt", str(paragraph.number))
    else:
        mark = OxmlElement("a:buNone")
        properties.set("marL", str(Inches(0.4) * (paragraph.level if paragraph else 0)))
        properties.set("indent", "0")
    properties.append(mark)


def _add_table(slide: Any, table: Table) -> None:
    columns = max(len(row) for row in table.rows)
    margin = Inches(0.7)
    frame = slide.shapes.add_table(len(table.rows), columns, margin, Inches(1.7), WIDTH - 2 * margin, Inches(0.5))
    for row, cells in zip(frame.table.rows, table.rows, strict=True):
        for cell, text in zip(row.cells, cells, strict=False):
            cell.text = text
            for paragraph in cell.text_frame.paragraphs:
                paragraph.font.size = CELL_SIZE
