"""The rule for warning about a webhook and disabling it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from webhooks_app.maintenance.health import Consequence, Rule
from webhooks_app.models import Webhook, WebhookHealth

SINCE = datetime(2026, 3, 1, tzinfo=UTC)
RULE = Rule(after=timedelta(days=5), min_deliveries=10, min_span=timedelta(hours=12))


def failing(given_up=10, span_hours=12.0, *, warned=False, policy=""):
    """Return the health of a webhook that has been failing since ``days`` ago."""
    return WebhookHealth(
        failing_since=SINCE,
        given_up_since=SINCE,
        last_given_up_at=SINCE + timedelta(hours=span_hours),
        given_up_count=given_up,
        warned_at=SINCE if warned else None,
        webhook=Webhook(retry_policy=policy),
    )


@pytest.mark.parametrize(
    ("health", "days", "consequence"),
    [
        (failing(), 2.49, Consequence.NONE),
        (failing(), 2.5, Consequence.WARN),
        (failing(warned=True), 2.5, Consequence.NONE),
        (failing(warned=True), 4.99, Consequence.NONE),
        (failing(warned=True), 5, Consequence.DISABLE),
        (failing(), 5, Consequence.DISABLE),
        (failing(given_up=9), 30, Consequence.NONE),
        (failing(span_hours=11.9), 30, Consequence.NONE),
        (WebhookHealth(), 30, Consequence.NONE),
    ],
    ids=[
        "before-half-time",
        "half-time",
        "warned-already",
        "just-before",
        "time-is-over",
        "nobody-looked-until-now",
        "too-few",
        "too-short-a-trouble",
        "well",
    ],
)
def test_the_verdict_depends_on_the_number_and_the_time_of_failures(health, days, consequence):
    assert RULE.consequence(health, SINCE + timedelta(days=days)) is consequence


@pytest.mark.parametrize(
    ("policy", "consequence"), [("specification", Consequence.NONE), ("extended", Consequence.DISABLE)]
)
def test_a_single_delivery_suffices_only_with_long_retries(policy, consequence):
    health = failing(given_up=1, span_hours=0, policy=policy)

    assert RULE.consequence(health, SINCE + timedelta(days=5)) is consequence


def test_without_automatic_disabling_there_are_still_warnings():
    rule = Rule(after=RULE.after, min_deliveries=10, min_span=RULE.min_span, disables=False)

    assert rule.consequence(failing(), SINCE + timedelta(days=9)) is Consequence.WARN
    assert rule.consequence(failing(warned=True), SINCE + timedelta(days=9)) is Consequence.NONE
    assert (rule.disables_at(failing()), RULE.disables_at(failing())) == (None, SINCE + timedelta(days=5))


@override_settings(
    WEBHOOKS_AUTO_DISABLE=False,
    WEBHOOKS_AUTO_DISABLE_AFTER_DAYS=2,
    WEBHOOKS_AUTO_DISABLE_MIN_DELIVERIES=3,
    WEBHOOKS_AUTO_DISABLE_MIN_SPAN_HOURS=1.5,
)
def test_the_limits_are_settings():
    assert Rule.configured() == Rule(
        after=timedelta(days=2), min_deliveries=3, min_span=timedelta(hours=1.5), disables=False
    )
