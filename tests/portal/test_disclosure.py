"""The cause of a failed connection to an unverified URL is on no page for customers."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from webhooks_app.models import Webhook

from ..support.masked import CAUSES, make_rows, set_cause
from ..support.rows import EVENT_TYPE
from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db

CHANGING = re.compile(r'name="(csrfmiddlewaretoken|submission)" value="[^"]+"|value="\d{4}-\d\d-\d\dT[^"]+"')


def test_two_causes_cannot_be_told_apart(amina: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: frozen)
    webhook = amina.webhook
    webhook.deliveries.all().delete()
    handshake, test = make_rows(webhook, EVENT_TYPE)
    paths = [
        amina.url("overview"),
        amina.url("webhooks"),
        *(amina.url(name, webhook.pk) for name in ("webhook", "webhook-handshake", "webhook-settings", "replay-new")),
        amina.url("webhook-test", webhook.pk) + f"?delivery={test.pk}",
        *(amina.url("deliveries") + query for query in ("", "?kind=all", "?result=unreachable")),
        amina.url("deliveries") + "?kind=all&finished_after=2020-01-01T00:00",
        *(amina.url("deliveries") + f"?kind=all&result={cause.result}" for cause in CAUSES),
        *(amina.url(name, pk) for name in ("delivery", "delivery-attempts") for pk in (handshake.pk, test.pk)),
        amina.url("event", str(test.event_id)),
    ]

    seen = []
    for cause in CAUSES:
        set_cause(cause)
        seen.append([CHANGING.sub("", text(amina.client.get(path))) for path in paths])

    assert dict(zip(paths, seen[0], strict=True)) == dict(zip(paths, seen[1], strict=True))
    body = re.sub("<option.*?</option>", "", "".join(seen[0]))
    assert not [word for cause in CAUSES for word in cause.words if word in body]
    assert "URL not reached" in body
    assert Webhook.objects.get(pk=webhook.pk).status == "failed"
