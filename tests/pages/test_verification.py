"""The code on pages is the code of the documentation, which its tests run."""

from __future__ import annotations

import pytest

from webhooks_app.conf import known_signatures
from webhooks_app.pages.verification import LANGUAGES, code_in, samples_for
from webhooks_app.signatures import NativeSignature

from ..docs.test_vectors import code_under

HEADINGS = {"python": "Python", "javascript": "JavaScript", "php": "PHP", "go": "Go", "ruby": "Ruby"}


class OwnNames(NativeSignature):
    name = "own"
    signature_header = "Acme-Signature"
    header_names = ("Acme-Signature", "Acme-Timestamp", "Acme-Event", "Acme-Before")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_code_is_that_of_the_documentation(language: str) -> None:
    assert code_in(language, NativeSignature()) == code_under(HEADINGS[language])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_code_has_the_headers_of_the_scheme(language: str) -> None:
    code = code_in(language, OwnNames()).lower().replace("_", "-")

    assert "acme-signature" in code
    assert "acme-before" in code
    assert "acme-timestamp" in code
    assert "x-webhook" not in code


def test_there_is_no_code_for_another_way_of_signing() -> None:
    schemes = known_signatures()

    assert samples_for([schemes["standard"]]) == []
    assert [each.name for each in samples_for([schemes["standard"], schemes["native"]])] == list(LANGUAGES)
