"""Event types hidden by the owner policy, and operational ones, on the pages of tenant staff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone

from tests.toys.owners import PayingOwners
from webhooks_app.event_types import registry
from webhooks_app.models import Event, Webhook
from webhooks_app.pages import listing
from webhooks_app.protocol.ids import first_id_at

from .conftest import Page, shows, text

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


def test_the_policy_is_asked_once_for_each_type_and_owner(tenant: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class CountingOwners(PayingOwners):
        def sees(self, owner: Any, event_type: Any) -> bool:
            asked.append(event_type.name)
            return super().sees(owner, event_type)

    monkeypatch.setattr("webhooks_app.owners.owners", CountingOwners)
    tenant.get("event")

    # Once for the filter of event types, and once for the rows.
    assert max(Counter(asked).values()) <= 2


@pytest.fixture
def of_two(tenant: Page, settings: Any) -> tuple[Page, Any]:
    """Staff of two accounts: their own sees no file.* type, the other one sees all."""
    other = get_user_model().objects.create_user("large", last_name="large")
    settings.WEBHOOKS_OWNERS = "tests.admin.test_visibility.OwnersOfStaff"
    return tenant, other


class OwnersOfStaff(PayingOwners):
    def visible_to(self, user: Any) -> Any:
        return get_user_model().objects.all()


def test_each_event_is_hidden_by_its_own_owner(of_two: tuple[Page, Any]) -> None:
    page, other = of_two
    hidden, shown = (
        Event.objects.create(type="file.uploaded", owner=owner, created_at=timezone.now())
        for owner in (page.user, other)
    )

    listed = page.get("event").context["cl"].result_list

    assert [event.pk for event in listed] == [shown.pk]
    assert shows(page.get("event", "change", hidden.pk), "Perhaps it was deleted?")
    assert page.get("event", q=hidden.pk).context["cl"].result_list == []
    assert page.get("event", q=shown.pk).context["cl"].result_list == [shown]


def test_a_list_examines_a_bounded_number_of_hidden_events(tenant: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "HORIZON", 10)
    at = timezone.now()
    ids = [first_id_at("evt", at - number * timedelta(seconds=1)) for number in range(15)]
    made = [Event(id=pk, type="file.uploaded", owner=tenant.user, created_at=at) for pk in ids]
    made[-1].type = "ppt.edit.started"
    *_hidden, shown = Event.objects.bulk_create(made)

    first = tenant.get("event").context["cl"]
    second = tenant.client.get(f"{reverse('admin:webhooks_app_event_changelist')}{first.older_url}")

    assert (first.result_list, first.page.is_cut_short) == ([], True)
    assert second.context["cl"].result_list == [shown]
    assert tenant.get("event", q=shown.pk).context["cl"].result_list == [shown]
