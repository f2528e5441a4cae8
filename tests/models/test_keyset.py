"""Pages of lists that consist of many parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from webhooks_app.models import Delivery, Webhook
from webhooks_app.models.keyset import Cursor, Page, Parts, read_page

from ..support.rows import make_webhook

pytestmark = pytest.mark.django_db

SIZE = 2


@pytest.fixture
def webhooks(monkeypatch: pytest.MonkeyPatch) -> list[Webhook]:
    """Eight webhooks of one owner, more than a page reads, and 1, 2, … 8 deliveries of each in turns."""
    monkeypatch.setattr("webhooks_app.models.keyset.MAX_RANGES", 3)
    owner, other = (get_user_model().objects.create_user(name) for name in ("amina", "boris"))
    made = [make_webhook(owner, url=f"https://{number}.example/") for number in range(8)]
    foreign = make_webhook(other)
    for turn in range(8):
        for webhook in (foreign, *made[turn:]):
            kind = "test" if webhook is made[7] and turn % 2 else "event"
            Delivery.objects.create(webhook=webhook, state="succeeded", kind=kind)
    return made


def walk(rows: Any, *, is_upwards: bool, **bounds: Any) -> Iterator[Page]:
    cursor = Cursor(True, "0" * 32) if is_upwards else None
    while True:
        page = read_page(rows, cursor=cursor, size=SIZE, **bounds)
        yield page
        cursor = page.newer if is_upwards else page.older
        if cursor is None:
            return


def ids(pages: Iterator[Page], *, is_upwards: bool) -> list[str]:
    found = [[row.pk for row in page.rows] for page in pages]
    return [pk for page in (found[::-1] if is_upwards else found) for pk in page]


@pytest.mark.parametrize(
    ("horizon", "is_upwards"), [(None, False), (3, False), (1000, False), (None, True), (1000, True)]
)
def test_no_row_of_many_parts_is_missing(webhooks: list[Webhook], horizon: int | None, is_upwards: bool) -> None:
    rows = Delivery.objects.filter(webhook__in=webhooks, kind="event")
    scope = {} if horizon is None else {"scope": Delivery.objects.all(), "horizon": horizon}
    parts = Parts.of("webhook", Webhook.objects.filter(owner=webhooks[0].owner))

    found = ids(walk(rows, is_upwards=is_upwards, parts=parts, **scope), is_upwards=is_upwards)

    expected = list(rows.order_by("-pk").values_list("pk", flat=True))
    if is_upwards:  # the last page is the first one of the list, filled up
        found = list(dict.fromkeys(found))
    assert found == expected


def test_a_page_of_many_parts_is_full(webhooks: list[Webhook]) -> None:
    rows = Delivery.objects.filter(webhook__in=webhooks)
    parts = Parts.of("webhook", Webhook.objects.filter(owner=webhooks[0].owner))

    pages = list(walk(rows, is_upwards=False, parts=parts, scope=Delivery.objects.all(), horizon=20))

    assert [len(page.rows) for page in pages] == [SIZE] * (rows.count() // SIZE)
    assert not any(page.is_cut_short for page in pages)


def test_parts_without_rows_are_not_read(webhooks: list[Webhook]) -> None:
    Delivery.objects.filter(webhook__in=webhooks[1:]).delete()
    parts = Parts.of("webhook", Webhook.objects.filter(owner=webhooks[0].owner))

    page = read_page(Delivery.objects.all(), parts=parts, size=SIZE)

    assert [row.webhook_id for row in page.rows] == [webhooks[0].pk]
    assert page.older is None
