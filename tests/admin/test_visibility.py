"""Event types hidden by the owner policy, and operational ones, on the pages of tenant staff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.event_types import registry
from webhooks_app.models import Event, Webhook

from .conftest import Page, text

VIEW = ("view_webhook", "view_event", "view_delivery", "test_webhook", "replay_webhook")
HIDDEN = ("file.uploaded", "webhook.failing")


@pytest.fixture
def tenant(staff: Callable[..., Page], settings: Any) -> Page:
    """Staff of an account that sees no file.* type."""
    settings.WEBHOOKS_OWNERS = "tests.toys.owners.PayingOwners"
    page = staff("berta", *VIEW)
    page.user.last_name = "small"
    page.user.save()
    return page


def names(content: str) -> list[str]:
    return [name for name in HIDDEN if name in content]


def test_the_examples_of_test_events_contain_no_hidden_types(tenant: Page, new_webhook: Callable[..., Webhook]) -> None:
    page = text(tenant.act("send_test", new_webhook(tenant.user, event_types=["ppt.edit.started"])))

    assert "ppt.edit.started" in page
    assert names(page) == []


@pytest.mark.parametrize("model", ["event", "delivery"])
def test_the_filter_by_event_type_has_no_hidden_types(tenant: Page, superuser: Page, model: str) -> None:
    assert names(text(tenant.get(model))) == []
    assert names(text(superuser.get(model))) == [name for name in HIDDEN if name in registry]


def test_the_form_of_a_replay_has_no_hidden_types(tenant: Page) -> None:
    page = text(tenant.get("replay", "add"))

    assert "ppt.edit.started" in page
    assert names(page) == []


def test_the_list_of_events_has_none_of_hidden_types(tenant: Page) -> None:
    hidden, shown = (
        Event.objects.create(type=name, owner=tenant.user, created_at=timezone.now())
        for name in ("file.uploaded", "ppt.edit.started")
    )

    page = text(tenant.get("event"))

    assert shown.pk in page
    assert hidden.pk not in page
