"""Problems that are logged once."""

from __future__ import annotations

from webhooks_app import once
from webhooks_app.once import Once


def test_each_key_is_first_once():
    reported = Once()

    assert [reported.is_first(pk) for pk in ("wh_1", "wh_1", "wh_2", "wh_1")] == [True, False, True, False]


def test_a_full_memory_starts_anew(monkeypatch):
    monkeypatch.setattr(once, "MOST_KEYS", 2)
    reported = Once()

    assert [reported.is_first(pk) for pk in ("wh_1", "wh_2", "wh_3", "wh_1")] == [True] * 4
