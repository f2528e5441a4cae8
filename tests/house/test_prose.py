"""The list of word-for-word translations is applied to each kind of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import prose

CALQUES = [prose.Calque.parse("green (apples?|pears?) => unripe fruit")]


def found(tmp_path: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    return [each.split(": ")[0] for each in prose.find(prose.passages(tmp_path / name), CALQUES)]


def test_the_place_and_a_correction_are_printed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text("Red\n\nGreen\napple\n")

    lines = list(prose.find(prose.passages(tmp_path / "page.md"), CALQUES))

    assert lines == ["page.md:3: instead of “Green apple” write “unripe fruit”"]


def test_docstrings_comments_messages_and_test_names_are_read(tmp_path, monkeypatch) -> None:
    source = '''
def test_it_eats_green_apples():
    """Return

    green pears.
    """
    # A green
    # apple is here.
    raise ValueError(f"{1} is a green pear.")
'''

    assert sorted(found(tmp_path, "module.py", source, monkeypatch)) == [f"module.py:{line}" for line in (2, 5, 7, 9)]


def test_whole_words_count(tmp_path, monkeypatch) -> None:
    assert found(tmp_path, "page.md", "Evergreen apples, green appleseed, green apple-pie", monkeypatch) == []


def test_code_in_documents_and_templates_is_not_prose(tmp_path, monkeypatch) -> None:
    page = "Run `green apple` now.\n\n```\ngreen apple\n```\n"
    template = '<p class="green apple">{% translate "A green pear." %}{{ green }}</p>'

    assert found(tmp_path, "page.md", page, monkeypatch) == []
    assert found(tmp_path, "page.html", template, monkeypatch) == ["page.html:1"]


def test_comments_of_other_files_are_read(tmp_path, monkeypatch) -> None:
    makefile = 'test: ## Run the green\n# A green pear\n\techo "green apple"\n'

    assert found(tmp_path, "Makefile", makefile, monkeypatch) == ["Makefile:3"]


def test_words_are_not_forbidden(tmp_path, monkeypatch) -> None:
    text = "What you see here tells you how it works, and says what to do. " * 10
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setattr(prose, "ROOT", tmp_path)

    assert list(prose.find(prose.passages(tmp_path / "page.md"), prose.calques())) == []
