"""The hints of checks link to the published page, or name the file in a checkout, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from webhooks_app.checks import registration
from webhooks_app.checks.registration import page_about_checks


@pytest.fixture(autouse=True)
def uncached() -> Iterator[None]:
    page_about_checks.cache_clear()
    yield
    page_about_checks.cache_clear()


def published(*urls: str) -> Message:
    distribution = Message()
    for url in urls:
        distribution["Project-URL"] = url
    return distribution


def test_a_hint_names_the_page_and_the_row_in_a_checkout(found, settings) -> None:
    settings.WEBHOOKS_TIMEOUT_SECONDS = "30"

    assert found()["webhooks_app.E001"].hint == "Use a number. See docs/checks.md#webhooks-e001."


def test_a_hint_links_to_the_published_page(found, settings, monkeypatch) -> None:
    settings.WEBHOOKS_TIMEOUT_SECONDS = "30"
    urls = ("Source, https://example.com/a/b", "Documentation, https://example.com/a/b/blob/HEAD/docs/index.md")
    monkeypatch.setattr(registration, "metadata", lambda name: published(*urls))

    link = "https://example.com/a/b/blob/HEAD/docs/checks.md#webhooks-e001"
    assert found()["webhooks_app.E001"].hint == f"Use a number. See {link}."


def test_a_hint_of_an_unpublished_wheel_names_no_page(found, settings, monkeypatch) -> None:
    settings.WEBHOOKS_TIMEOUT_SECONDS = "30"
    monkeypatch.setattr(registration, "metadata", lambda name: published())
    monkeypatch.setattr(registration, "CHECKS_PAGE", Path("docs", "missing.md"))

    assert found()["webhooks_app.E001"].hint == "Use a number."
