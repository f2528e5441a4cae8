"""Records that are logged once per webhook."""

from __future__ import annotations

from webhooks_app.delivery import once_per_webhook
from webhooks_app.delivery.once_per_webhook import OncePerWebhook


def test_each_webhook_is_first_once():
    reported = OncePerWebhook()

    assert [reported.is_first(pk) for pk in ("wh_1", "wh_1", "wh_2", "wh_1")] == [True, False, True, False]


def test_a_full_memory_starts_anew(monkeypatch):
    monkeypatch.setattr(once_per_webhook, "MAX_REMEMBERED", 2)
    reported = OncePerWebhook()

    assert [reported.is_first(pk) for pk in ("wh_1", "wh_2", "wh_3", "wh_1")] == [True] * 4
