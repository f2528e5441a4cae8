"""Commands answer in English, whatever the language of the project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.utils import translation

from webhooks_app.models import Webhook

from ..support.rows import emit_one, make_webhook
from .conftest import Output

Run = Callable[..., Output]


@pytest.fixture(autouse=True)
def _german() -> Iterator[None]:
    with translation.override("de"):
        yield


def test_a_result_is_english(run: Run, owner: Any) -> None:
    webhook = make_webhook(owner)
    webhook_id, delivery = webhook.pk, emit_one(owner).deliveries.get()

    output = run("explain_event", delivery.event_id)

    assert output.stdout == f"{webhook_id} sent ({delivery.pk}): It was active, and subscribed to the type.\n"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        pytest.param('--filter={"a": {"$gt": []}}', "filter: ", id="filter"),
        pytest.param("--retry-policy=unknown", "retry_policy: ", id="retry policy"),
    ],
)
def test_an_error_is_english(run: Run, webhook: Webhook, option: str, message: str) -> None:
    with translation.override("en"), pytest.raises(CommandError, match=message) as english:
        run("configure_webhook", webhook.pk, option)

    with pytest.raises(CommandError) as raised:
        run("configure_webhook", webhook.pk, option)

    assert str(raised.value) == str(english.value)
