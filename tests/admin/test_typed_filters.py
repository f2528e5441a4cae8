"""Filters with typed input: times, webhook and owner."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth import get_user_model

from tests.support.reading import refused
from webhooks_app.emission import emit
from webhooks_app.models import Delivery, Event, Webhook
from webhooks_app.protocol.ids import first_id_at

from .conftest import DATA, Page, shows, text

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def new_delivery(webhook: Webhook) -> Callable[..., str]:
    """Insert a delivery to a webhook with this creation time, and return its id."""

    def new_delivery(second: float = 0, to: Webhook = webhook) -> str:
        pk = first_id_at("dlv", NOON.replace(second=int(second)))
        return Delivery.objects.queue(pk=pk, webhook=to, kind=Delivery.Kind.EVENT).pk

    return new_delivery


def listed(page: Any) -> list[str]:
    return [row.pk for row in page.context["cl"].result_list]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"created_after": "2026-03-01T12:00:01"}, [2, 1]),
        ({"created_before": "2026-03-01T12:00:01"}, [0]),
        ({"created_after": "2026-03-01T12:00:01", "created_before": "2026-03-01T12:00:02"}, [1]),
        ({"created_after": "2026-03-01T13:00:02+01:00"}, [2]),
        ({"created_after": "2026-03-01T12:00:02", "created_before": "2026-03-01T12:00:01"}, []),
        ({"created_after": "0002-01-02T00:00", "created_before": "9998-01-01T00:00"}, [2, 1, 0]),
        ({"created_after": "", "created_before": ""}, [2, 1, 0]),
    ],
    ids=["from", "to", "both", "offset", "backwards", "far-apart", "left-empty"],
)
def test_a_list_is_filtered_by_time(
    superuser: Page, new_delivery: Any, settings: Any, query: dict[str, str], found: list[int]
) -> None:
    settings.TIME_ZONE = "UTC"
    ids = [new_delivery(second) for second in range(3)]

    assert listed(superuser.get("delivery", **query)) == [ids[second] for second in found]


def test_a_time_without_an_offset_is_local(superuser: Page, new_delivery: Any, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    pk = new_delivery()

    page = superuser.get("delivery", created_after="2026-03-01T13:00", created_before="2026-03-01T12:00:01Z")

    assert listed(page) == [pk]
    assert 'name="created_after" value="2026-03-01T13:00:00"' in text(page)
    assert 'name="created_before" value="2026-03-01T13:00:01"' in text(page)


@pytest.mark.parametrize(
    "query",
    [
        {"created_after": "yesterday"},
        {"created_before": "2026-02-30T00:00"},
        {"created_after": "0001-01-01T00:00+14:00"},
        {"created_before": "9999-12-31T23:59:59-14:00"},
        {"created_after": "2026-03-02T00:00", "created_before": "2026-03-01T00:00"},
        {"finished_after": "2026-03-02T00:00", "finished_before": "2026-03-02T00:00"},
        {"webhook_id": "x" * 101},
        {"owner": "x" * 255},
    ],
    ids=lambda query: next(iter(query)),
)
def test_invalid_input_finds_nothing_and_shows_an_error(
    superuser: Page, new_delivery: Any, query: dict[str, str]
) -> None:
    new_delivery()

    page = superuser.get("delivery", **query)

    assert listed(page) == []
    assert refused(text(page)) == [list(query)[-1]]
    assert not shows(page, "Search older rows")


@pytest.mark.parametrize("name", ["created", "finished"])
def test_a_reversed_period_is_explained(superuser: Page, name: str) -> None:
    page = superuser.get("delivery", **{f"{name}_after": "2026-03-02T00:00", f"{name}_before": "2026-03-01T00:00"})

    assert shows(page, "The end of the period must be later than its beginning.")


@pytest.mark.parametrize(
    ("name", "word", "found"),
    [
        ("webhook_id", "{pk}", True),
        ("webhook_id", "wh_" + "7" * 32, False),
        ("q", "{pk}", True),
        ("q", "other.example", True),
        ("q", "OTHER.example/h", True),
        ("q", "%", False),
    ],
    ids=["id", "unknown-id", "searched-id", "host", "part", "percent"],
)
def test_deliveries_are_filtered_by_webhook(
    superuser: Page, new_webhook: Any, new_delivery: Any, name: str, word: str, found: bool
) -> None:
    other = new_webhook(None, url="https://other.example/hook")
    new_delivery(1)
    wanted = new_delivery(2, other)

    page = superuser.get("delivery", **{name: word.format(pk=other.pk)})

    assert listed(page) == ([wanted] if found else [])


def test_the_filter_from_a_webhooks_page_can_be_removed(superuser: Page, new_webhook: Any, new_delivery: Any) -> None:
    other = new_webhook(None)
    both = [new_delivery(2, other), new_delivery(1)]

    narrowed = superuser.client.get(superuser.get("webhook", "change", other.pk).context["deliveries_url"])
    spec = next(spec for spec in narrowed.context["cl"].filter_specs if spec.title == "webhook")
    without, chosen = spec.choices(narrowed.context["cl"])

    assert listed(narrowed) == both[:1]
    assert (chosen["selected"], chosen["display"], without["selected"]) == (True, other.pk, False)
    assert listed(superuser.client.get(f"/admin/webhooks_app/delivery/{without['query_string']}")) == both


@pytest.mark.parametrize(("name", "word"), [("webhook_id", "{pk}"), ("q", "receiver.example")], ids=["id", "url"])
def test_staff_find_nothing_of_a_foreign_webhook(
    staff: Callable[..., Page], webhook: Webhook, new_delivery: Any, name: str, word: str
) -> None:
    new_delivery()

    assert listed(staff("berta", "view_delivery").get("delivery", **{name: word.format(pk=webhook.pk)})) == []


@pytest.mark.parametrize("extra", [{}, {"q": "receiver"}, {"state": "pending"}, {"kind": "test"}])
@pytest.mark.parametrize("name", ["amina", "nobody"])
def test_deliveries_are_filtered_by_owner(
    superuser: Page, new_webhook: Any, new_delivery: Any, name: str, extra: dict[str, str]
) -> None:
    new_delivery(1, new_webhook(superuser.user))
    of_amina = new_delivery(2)

    found = listed(superuser.get("delivery", owner=name, **extra))

    assert found == ([of_amina] if name == "amina" and "kind" not in extra else [])


@pytest.mark.parametrize("name", ["amina", "nobody"])
def test_events_are_filtered_by_owner(superuser: Page, owner: Any, name: str) -> None:
    emit("file.deleted", DATA, owner=superuser.user)
    emit("file.deleted", DATA, owner=owner)

    found = listed(superuser.get("event", owner=name))

    assert found == [event.pk for event in Event.objects.filter(owner__username=name)]


@pytest.mark.parametrize("model", ["delivery", "event"])
def test_the_filter_by_owner_does_not_reveal_other_owners(
    staff: Callable[..., Page], new_webhook: Any, delivery: Delivery, model: str
) -> None:
    page = staff("berta", "view_delivery", "view_event")
    new_webhook(page.user)
    own = emit("file.deleted", DATA, owner=page.user)

    answer = page.get(model, owner="amina")

    assert listed(answer) == ([own.pk] if model == "event" else [own.deliveries.get().pk])
    assert 'id="filter-owner"' not in text(answer)
    assert 'id="filter-owner"' in text(Page(get_user_model().objects.create_superuser("root")).get(model))


def test_a_form_keeps_the_search_and_the_other_filters(superuser: Page) -> None:
    query = {"state": "pending", "period": "day", "q": "amina", "webhook_id": "wh_1"}

    page = superuser.get("delivery", **query, cursor="after." + "0" * 32)
    kept = {spec.title: spec.kept for spec in page.context["cl"].filter_specs if spec.fields}

    assert dict(kept["time"]) == {"state": "pending", "q": "amina", "webhook_id": "wh_1"}
    assert dict(kept["webhook"]) == {"state": "pending", "q": "amina", "period": "day"}
    assert text(page).count('<input type="hidden" name="q" value="amina">') == len(kept)


def test_empty_fields_do_not_filter(superuser: Page) -> None:
    page = superuser.get("delivery", created_after="", created_before="", webhook_id="", owner=" ", state="pending")

    assert page.context["cl"].get_query_string() == "?owner=+&state=pending"
    assert [spec.title for spec in page.context["cl"].filter_specs if any(spec.used_parameters.values())] == ["state"]


@pytest.mark.parametrize("model", [Delivery, Event])
def test_each_filter_has_a_parameter_name_for_themes(model: type, rf: Any, admin_user: Any) -> None:
    request = rf.get("/")
    request.user = admin_user

    filters = site.get_model_admin(model).get_changelist_instance(request).filter_specs

    assert [
        each.title for each in filters if not (hasattr(each, "parameter_name") or hasattr(each, "field_path"))
    ] == []
