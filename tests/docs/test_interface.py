"""The page of public names is that of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.rendering import interface
from docs.rendering.interface import PAGE, main, missing, names_on, page_of


def test_the_page_has_the_public_names_of_the_code() -> None:
    names = interface.interface()

    assert missing(names_on(PAGE.read_text()), names) == [], "A public name is gone: deprecate it first."
    assert PAGE.read_text() == page_of(names), "Run python docs/rendering/interface.py."


@pytest.mark.parametrize(
    "name",
    [
        *("webhooks_app.emit", "webhooks_app.receiver.verify", "webhooks_app.receiver_view.WebhookReceiverView"),
        *("WEBHOOKS_SIGNATURES", "send_test_event --wait", "delivery_given_up attempt", "webhooks_api:webhook-list"),
        *("webhooks_portal:delivery", "base.html webhooks_content", "--webhooks-accent", "webhooks_deliveries_due"),
    ],
)
def test_each_kind_of_name_is_public(name: str) -> None:
    assert name in {each for names in interface.interface().values() for each in names}


def test_a_name_is_not_taken_out_by_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        PAGE.read_text().replace("- `webhooks_app.emit`\n", "- `webhooks_app.emit`\n- `webhooks_app.gone`\n")
    )
    monkeypatch.setattr(interface, "PAGE", page)

    assert "webhooks_app.gone" in main([])
    assert "webhooks_app.gone" in page.read_text()
    assert main(["--remove"]) == ""
    assert page.read_text() == PAGE.read_text()
