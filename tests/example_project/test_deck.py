"""Slides generated from Markdown."""

from __future__ import annotations

import io

import pytest
from pptx import Presentation

from example_project.presentations.deck import make_deck
from example_project.presentations.layout import MAX_PAGES, paginate
from example_project.presentations.outline import OutlineError, parse_outline


def _deck(markdown, title="Title"):
    deck = make_deck(title, paginate(title, parse_outline(markdown)), subtitle="amina")
    slides = list(Presentation(io.BytesIO(deck.content)).slides)
    assert deck.pages == len(slides)
    return slides


def _body(slide):
    """Return the paragraphs below the title of a slide."""
    return [p for shape in slide.placeholders if shape.placeholder_format.idx == 1 for p in shape.text_frame.paragraphs]


def _titles(slides):
    return [slide.shapes.title.text for slide in slides]


def test_the_title_and_each_heading_have_a_slide():
    slides = _deck("# One\n\ntext\n\n## Two\n\ntext")

    assert _titles(slides) == ["Title", "One", "Two"]
    assert slides[0].placeholders[1].text == "amina"


def test_a_heading_without_text_is_a_divider():
    slides = _deck("# Part\n\n## Page\n\ntext")

    assert slides[1].slide_layout.name == "Section Header"
    assert slides[2].slide_layout.name == "Title and Content"


def test_a_heading_that_repeats_the_title_has_no_slide():
    assert _titles(_deck("# Title\n\n## One\n\ntext")) == ["Title", "One"]


def test_text_above_the_first_heading_is_under_the_title():
    slides = _deck("Before.\n\n# One")

    assert _titles(slides) == ["Title", "Title", "One"]
    assert [p.text for p in _body(slides[1])] == ["Before."]


def test_lists_keep_their_nesting_and_their_numbers():
    (_, slide) = _deck("# One\n\n- a\n  - b\n    - c\n- d\n\n3. e\n4. f")

    paragraphs = _body(slide)
    assert [(p.text, p.level) for p in paragraphs] == [("a", 0), ("b", 1), ("c", 2), ("d", 0), ("e", 0), ("f", 0)]
    numbers = [p._p.pPr.find("{*}buAutoNum") for p in paragraphs[4:]]
    assert [number.get("startAt") for number in numbers] == ["3", "4"]


def test_plain_paragraphs_have_no_bullet():
    (_, slide) = _deck("# One\n\ntext\n\n- point")

    text, point = _body(slide)
    assert text._p.pPr.find("{*}buNone") is not None
    assert point._p.pPr is None or point._p.pPr.find("{*}buNone") is None


def test_a_second_paragraph_of_a_point_is_not_marked_again():
    (_, slide) = _deck("# One\n\n1. first\n\n   more of it")

    assert [p._p.pPr.find("{*}buAutoNum") is not None for p in _body(slide)] == [True, False]


def test_code_keeps_its_lines_in_a_fixed_width():
    (_, slide) = _deck("# One\n\n```python\ndef f():\n    return 1\n```")

    assert [p.text for p in _body(slide)] == ["def f():", "    return 1"]
    assert {run.font.name for p in _body(slide) for run in p.runs} == {"Courier New"}


def test_inline_styles_are_kept():
    (_, slide) = _deck("# One\n\n**b** *i* `c` [l](https://example.com) [x](ftp://example.com)")

    runs = {run.text: run for run in _body(slide)[0].runs}
    assert (runs["b"].font.bold, runs["i"].font.italic, runs["c"].font.name) == (True, True, "Courier New")
    assert runs["l"].hyperlink.address == "https://example.com"
    assert runs["x"].hyperlink.address is None


def test_a_table_becomes_a_table_with_its_header():
    (_, slide) = _deck("# One\n\n| a | b |\n|---|---|\n| `c` | |\n")

    (table,) = [shape.table for shape in slide.shapes if shape.has_table]
    assert [[cell.text for cell in row.cells] for row in table.rows] == [["a", "b"], ["c", ""]]


@pytest.mark.parametrize(
    ("markdown", "pages"),
    [
        pytest.param("# One\n\n" + "- point\n" * 14, 2, id="points"),
        pytest.param("# One\n\n```\n" + "line\n" * 40 + "```", 4, id="code"),
        pytest.param("# One\n\n" + "word " * 500, 3, id="one paragraph"),
        pytest.param("# One\n\n" + "w" * 2500, 3, id="one word"),
        pytest.param("# One\n\n| a |\n|---|\n" + "| b |\n" * 40, 3, id="table"),
    ],
)
def test_long_content_continues_on_further_slides(markdown, pages):
    slides = _deck(markdown)

    assert _titles(slides)[1:] == ["One"] + ["One (continued)"] * (pages - 1)


def test_no_word_is_lost_between_slides():
    words = [f"word{number}" for number in range(700)]

    slides = _deck("# One\n\n" + " ".join(words))

    assert " ".join(p.text for slide in slides[1:] for p in _body(slide)).split() == words


def test_slides_are_wide():
    presentation = Presentation(io.BytesIO(make_deck("Title", []).content))

    assert round(presentation.slide_width / presentation.slide_height, 2) == 1.78


@pytest.mark.parametrize(
    "markdown",
    ["", "Text alone.", "- a list", "[a]: https://example.com", "<!-- nothing -->"],
    ids=["nothing", "text", "list", "definition", "comment"],
)
def test_an_outline_without_headings_is_refused(markdown):
    with pytest.raises(OutlineError, match="no headings"):
        parse_outline(markdown)


def test_too_many_pages_are_refused():
    sections = parse_outline("# page\n\n" * MAX_PAGES)

    with pytest.raises(OutlineError, match=f"{MAX_PAGES + 1} pages"):
        paginate("Title", sections)


@pytest.mark.parametrize(
    "markdown",
    ["# a\x0bb\x1b", "# " + "[" * 2000, "# h\n\n" + "> " * 500 + "x", "# h\n\n" + "- " * 500, "#\n\n|\n|-|"],
    ids=["control characters", "brackets", "quotations", "lists", "broken table"],
)
def test_no_outline_breaks_the_file(markdown):
    assert len(_deck(markdown)) >= 1


def test_the_checkpoint_can_stop_the_work():
    def stop():
        raise InterruptedError

    with pytest.raises(InterruptedError):
        make_deck("Title", paginate("Title", parse_outline("# One")), checkpoint=stop)
