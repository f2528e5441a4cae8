"""For any value, the checks return at most one clear message and never fail."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.test import override_settings
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy

from webhooks_app.checks import environment, settings
from webhooks_app.conf import setting_types

CHECKS: list[Callable[[], list[CheckMessage]]] = [
    settings.check_values,
    settings.check_lease,
    settings.check_names,
    environment.check_http,
    environment.check_allowed_networks,
    environment.check_encryption_keys,
]

HOSTILE: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "object": object,
    "class": lambda: dict,
    "function": lambda: len,
    "dict": lambda: {"a": 1},
    "set": lambda: {1},
    "generator": lambda: iter([1]),
    "empty list": list,
    "list of None": lambda: [None],
    "list of lists": lambda: [[]],
    "list of texts": lambda: ["\0"],
    "list of a huge text": lambda: ["x" * 10**6],
    "list of NaN": lambda: [float("nan")],
    "list of a huge number": lambda: [10**5000],
    "long list": lambda: ["x"] * 1000,
    "mixed list": lambda: [1, "x", None, object()],
    "empty text": str,
    "space": lambda: " ",
    "NUL": lambda: "\0",
    "surrogate": lambda: "\ud800",
    "newline": lambda: "a\nb",
    "huge text": lambda: "x" * 10**6,
    "dots": lambda: "..",
    "dotted path": lambda: "a.b.c",
    "relative path": lambda: ".a",
    "number in a text": lambda: "5",
    "huge number in a text": lambda: "9" * 5000 + "/min",
    "foreign digits": lambda: "٣/min",
    "broken URL": lambda: "http://[::1",
    "URL with a broken port": lambda: "http://a:port",
    "lazy text": lambda: gettext_lazy("webhook"),
    "lazy object": lambda: SimpleLazyObject(lambda: 5),
    "bytes": lambda: b"x",
    "path": lambda: Path("/"),
    "folder": lambda: "/",
    "True": lambda: True,
    "False": lambda: False,
    "negative": lambda: -1,
    "zero": lambda: 0,
    "negative zero": lambda: -0.0,
    "tiny": lambda: 5e-324,
    "huge": lambda: 10**5000,
    "huge negative": lambda: -(10**5000),
    "large float": lambda: 1e308,
    "NaN": lambda: float("nan"),
    "Infinity": lambda: float("inf"),
    "Decimal": lambda: Decimal(5),
    "Decimal NaN": lambda: Decimal("NaN"),
    "Fraction": lambda: Fraction(1, 3),
    "complex": lambda: 1j,
}


def about(name: str) -> list[CheckMessage]:
    """Return the messages about this setting."""
    return [message for check in CHECKS for message in check() if name in message.msg]


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_value_causes_at_most_one_clear_message(value: Callable[[], Any]) -> None:
    for name in setting_types():
        with override_settings(**{name: value()}):
            messages = about(name)

        assert len(messages) <= 1, name
        for message in messages:
            text = f"{message.msg} {message.hint}"
            assert message.hint, name
            assert len(text) < 1000, name
            assert text.isprintable(), name


@pytest.mark.parametrize("name", setting_types())
def test_most_of_these_values_are_refused(name: str) -> None:
    refused = 0
    for value in HOSTILE.values():
        with override_settings(**{name: value()}):
            refused += bool(about(name))

    assert refused > len(HOSTILE) / 2
