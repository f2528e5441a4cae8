"""The measure of English finds the limited words in each kind of text."""

from __future__ import annotations

from pathlib import Path

from . import prose


def measured(tmp_path: Path, name: str, text: str, monkeypatch) -> prose.Measure:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    return prose.measure(prose.passages(tmp_path / name))


def test_docstrings_comments_messages_and_test_names_are_measured(tmp_path, monkeypatch):
    source = '''
def test_it_does_what_was_said():
    """Tell what the caller wants."""
    # What follows is a comment
    # that goes on here.
    raise ValueError(f"{1} is not what was expected here.")
'''

    found = measured(tmp_path, "module.py", source, monkeypatch)

    assert len(found.found[prose.WHAT]) == 4
    assert len(found.found[prose.SPEECH]) == 2
    assert [sentence for _, sentence in found.found[prose.OPENER]] == ["What follows is a comment that goes on here."]


def test_code_in_documents_and_templates_is_not_prose(tmp_path, monkeypatch):
    page = "Run `what` now, please.\n\n```\ntell says what\n```\n"
    template = '<p what="x">{% translate "Pending deliveries are cancelled now." %}{{ what }}</p>'

    in_page = measured(tmp_path, "page.md", page, monkeypatch)
    in_template = measured(tmp_path, "page.html", template, monkeypatch)

    assert in_page.exceeded == in_template.exceeded == []
    assert in_template.words == 5


def test_long_sentences_exceed_the_limit(tmp_path, monkeypatch):
    found = measured(tmp_path, "page.md", "Deliveries are " + "very " * 20 + "late.", monkeypatch)

    assert found.exceeded == ["median"]


def test_comments_of_other_files_are_measured(tmp_path, monkeypatch):
    makefile = (
        'test: ## Run what was found here\n# It does what the\n# caller said before.\n\techo "what is not said"\n'
    )

    found = measured(tmp_path, "Makefile", makefile, monkeypatch)

    assert [sentence for _, sentence in found.found[prose.WHAT]] == [
        "Run what was found here",
        "It does what the caller said before.",
    ]
