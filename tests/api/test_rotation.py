"""Rotation of a webhook's secret, and its overlap."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from tests.support.rows import make_webhook
from webhooks_app.models import SigningKey, Webhook

pytestmark = pytest.mark.django_db

SECRET = "a secret of my own choice"


@pytest.fixture
def webhook(alice):
    return make_webhook(alice)


def rotate(api, webhook, body=None):
    return api.call("POST", f"/v1/webhooks/{webhook.id}/rotate-secret", body)


def overlap(answer):
    """Return the remaining overlap to the minute; None if there is none."""
    until = answer.json()["previous_secret_until"]
    return until and round((datetime.fromisoformat(until) - timezone.now()) / timedelta(minutes=1))


def test_the_default_overlap_is_a_day(api, webhook):
    old = webhook.secret

    assert overlap(rotate(api, webhook)) == 24 * 60
    assert api.call("GET", f"/v1/webhooks/{webhook.id}").json()["previous_secret_until"]
    assert old not in str(Webhook.objects.values().get())


@pytest.mark.parametrize(("seconds", "minutes"), [(0, None), (60, 1), (60.0, 1), (604_800, 7 * 24 * 60)])
def test_the_caller_can_set_the_overlap(api, webhook, seconds, minutes):
    answer = rotate(api, webhook, {"overlap_seconds": seconds})

    assert (answer.status_code, overlap(answer)) == (200, minutes)


def test_the_default_overlap_follows_the_settings(api, webhook, settings):
    settings.WEBHOOKS_SECRET_OVERLAP_SECONDS = 0

    assert overlap(rotate(api, webhook)) is None


@pytest.mark.parametrize("seconds", [-1, 604_801, 10**30, "60", 1.5, True, None, []], ids=repr)
def test_an_overlap_that_is_not_allowed_changes_nothing(api, webhook, seconds):
    answer = rotate(api, webhook, {"overlap_seconds": seconds})

    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["overlap_seconds"])
    assert Webhook.objects.get().secret == webhook.secret


def test_repeating_the_secret_keeps_the_overlap(api, webhook):
    first = rotate(api, webhook, {"secret": SECRET, "overlap_seconds": 3600})
    again = rotate(api, webhook, {"secret": SECRET, "overlap_seconds": 3600})

    assert again.json() == first.json()


def test_an_overlap_is_ended_on_request(api, webhook):
    rotate(api, webhook, {"secret": SECRET})

    answers = [api.call("POST", f"/v1/webhooks/{webhook.id}/revoke-previous-secret") for _ in range(2)]

    assert [(answer.status_code, answer.json()["previous_secret_until"]) for answer in answers] == [(200, None)] * 2
    assert Webhook.objects.get().secret == SECRET
    assert SigningKey.objects.count() == 1


def test_only_the_new_secret_is_shown(api, webhook):
    old = webhook.secret

    answer = rotate(api, webhook)
    later = [api.call("GET", f"/v1/webhooks/{webhook.id}"), api.call("GET", "/v1/webhooks")]

    new = answer.json()["secret"]
    assert old not in answer.content.decode()
    assert [new in page.content.decode() or old in page.content.decode() for page in later] == [False, False]


def test_an_ended_overlap_is_not_shown(api, webhook):
    rotate(api, webhook)
    SigningKey.objects.exclude(valid_until=None).update(valid_until=timezone.now() - timedelta(seconds=1))

    assert api.call("GET", f"/v1/webhooks/{webhook.id}").json()["previous_secret_until"] is None


def test_rotation_replaces_an_unreadable_secret(api, webhook):
    SigningKey.objects.update(encrypted_key="nonsense")

    answer = rotate(api, webhook)

    assert (answer.status_code, overlap(answer)) == (200, None)
    assert Webhook.objects.get().secret == answer.json()["secret"]


def test_the_api_prepares_activates_and_withdraws(api, webhook):
    path, soon = f"/v1/webhooks/{webhook.id}", (timezone.now() + timedelta(days=1)).isoformat()
    old = webhook.secret

    prepared = api.call("POST", f"{path}/rotate-secret", {"activate_at": soon}).json()
    assert prepared["secret_activates_at"]
    assert prepared["secret"] != old
    assert Webhook.objects.get().secret == old
    activated = api.call("POST", f"{path}/activate-secret").json()
    assert (activated["secret_activates_at"], Webhook.objects.get().secret) == (None, prepared["secret"])

    api.call("POST", f"{path}/rotate-secret", {"activate_at": soon})
    assert api.call("POST", f"{path}/withdraw-secret").json()["secret_activates_at"] is None
    assert Webhook.objects.get().secret == prepared["secret"]
