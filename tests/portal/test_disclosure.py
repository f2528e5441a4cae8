"""The cause of a failed connection to an unverified URL is on no page for customers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import pytest
from django.utils import timezone

from webhooks_app.models import Webhook

from ..support.masked import CAUSES, make_rows, set_cause
from ..support.rows import EVENT_TYPE
from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db

CHANGING = re.compile(r'name="(csrfmiddlewaretoken|submission)" value="[^"]+"|value="\d{4}-\d\d-\d\dT[^"]+"')
LINK = re.compile(r'(?:href|action|data-[a-z-]*url)="([^"#]+)"')
ASKED = re.compile(r'<option.*?</option>|(?:href="(?:[^"?]*/share/)?|data-live-page="[^"]*)\?[^"]*"', re.DOTALL)
"""What readers have asked for, or can: the choices of filters, and links that keep or share them."""
TIMES = ("finished_after", "finished_before", "created_after", "created_before")


def filtered(url: str, form: Any) -> Iterator[str]:
    """Yield the addresses of a list with each choice and each time limit of its filters, among all kinds."""
    yield f"{url}?kind=all"
    for name, field in form.fields.items():
        values = [value for value, _ in getattr(field, "choices", ())]
        values += ["2020-01-01T00:00", "2030-01-01T00:00"] if name in TIMES else []
        values += ["4xx", "5xx", "200"] if name == "answer" else []
        yield from (f"{url}?{'' if name == 'kind' else 'kind=all&'}{name}={value}" for value in values if value)


def walk(customer: Customer) -> dict[str, str]:
    """Return all pages that links lead to, with all filters of the lists, by address.

    Pages that share an address have nothing else.
    """
    start = customer.url("overview")
    waiting = [start, customer.url("replay-new", customer.webhook.pk)]
    found: dict[str, str] = {}
    while waiting:
        url = waiting.pop()
        if url in found:
            continue
        answer: Any = customer.client.get(url)
        found[url] = CHANGING.sub("", text(answer))
        links = (urljoin(url, html.unescape(link)) for link in LINK.findall(answer.content.decode()))
        waiting += [each for each in links if each.startswith(start) and "/share/" not in each]
        if "?" not in url and (form := (answer.context or {}).get("form")) is not None and form.is_bound:
            waiting += filtered(url, form)
    return found


def test_two_causes_cannot_be_told_apart(amina: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: frozen)
    webhook = amina.webhook
    webhook.deliveries.all().delete()
    handshake, test = make_rows(webhook, EVENT_TYPE)

    seen = []
    for cause in CAUSES:
        set_cause(cause)
        seen.append(walk(amina))

    assert [url for url in seen[0] if seen[0][url] != seen[1].get(url)] == []
    assert seen[0].keys() == seen[1].keys()
    pages = [("delivery", handshake.pk), ("delivery", test.pk), ("event", test.event_id), ("replay", amina.replay.pk)]
    assert {amina.url(name, pk) for name, pk in pages} <= seen[0].keys()
    assert len(seen[0]) > 80
    body = ASKED.sub("", "".join(seen[0].values()))
    assert not [word for cause in CAUSES for word in cause.words if word in body]
    assert "URL not reached" in body
    assert Webhook.objects.get(pk=webhook.pk).status == "failed"
