"""The request and the answer of an attempt, as every page shows them."""

from __future__ import annotations

import json

import pytest

from webhooks_app.models import DeliveryAttempt

from ..admin.conftest import Page, superuser
from ..portal.conftest import Customer, amina
from ..support.reading import named

__all__ = ["amina", "superuser"]

pytestmark = pytest.mark.django_db


def test_staff_and_customers_read_the_same_indented_request_and_answer(superuser: Page, amina: Customer) -> None:
    answer = json.dumps({"error": "down"})
    DeliveryAttempt.objects.update(timestamp=1_795_252_384, signatures="sha256=" + "a" * 64, response_body=answer)
    pages = (superuser.get("delivery", "change", amina.delivery.pk), amina.get("delivery", amina.delivery.pk))

    shown = {
        name: [named(page.content.decode(), name).get_text() for page in pages]
        for name in ("Request body", "Response body")
    }

    envelope = json.dumps(json.loads(amina.event.body), indent=2)
    assert shown == {"Request body": [envelope] * 2, "Response body": ['{\n  "error": "down"\n}'] * 2}
