"""Choosing signature schemes over the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from webhooks_app.models import AuditEntry, SigningKey, Webhook
from webhooks_app.protocol.json_data import format_time

from ..support.rows import EVENT_TYPE, URL, make_webhook

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE]}
SECRET = "a secret of my own choice"


def errors(answer):
    assert answer.status_code == 400
    return {path.partition(".")[0].partition("[")[0]: found for path, found in answer.json()["errors"].items()}


def test_the_default_scheme_is_that_of_the_specification(api):
    made = api.call("POST", "/v1/webhooks", NEW).json()

    assert (made["signatures"], made["public_keys"]) == (["native"], [])


def test_several_schemes_can_be_set_and_changed(api):
    made = api.call("POST", "/v1/webhooks", {**NEW, "signatures": ["standard", "native"]}).json()

    changed = api.call("PATCH", f"/v1/webhooks/{made['id']}", {"signatures": ["standard"]}).json()

    assert (made["signatures"], changed["signatures"]) == (["native", "standard"], ["standard"])
    entry = AuditEntry.objects.get(action="webhook.changed")
    assert entry.changes == {"signatures": [["native", "standard"], ["standard"]]}


def test_a_key_pair_is_generated_once_and_only_its_public_key_is_shown(api):
    made = api.call("POST", "/v1/webhooks", {**NEW, "signatures": ["native", "standard-ed25519"]})

    again = api.call("PATCH", f"/v1/webhooks/{made.json()['id']}", {"signatures": ["standard-ed25519"]}).json()

    (key,) = again["public_keys"]
    assert key["key"].startswith("whpk_")
    assert made.json()["public_keys"] == [key]
    assert b"whsk_" not in made.content


def test_rotating_a_key_pair_does_not_show_the_secret(api, alice):
    webhook = make_webhook(alice, signatures=["native", "standard-ed25519"])
    (old,) = webhook.public_keys

    answer = api.call("POST", f"/v1/webhooks/{webhook.pk}/rotate-secret", {"scheme": "standard-ed25519"}).json()

    new, previous = answer["public_keys"]
    assert (previous["key"], new["valid_until"], answer["secret"]) == (old["key"], None, None)
    assert previous["valid_until"]
    assert Webhook.objects.get().secret == webhook.secret


def test_the_state_of_each_public_key_is_told_through_a_whole_rotation(api, alice):
    webhook = make_webhook(alice, signatures=["standard-ed25519"])
    told = {"scheme": "standard-ed25519"}

    def states(verb, **more):
        answer = api.call("POST", f"/v1/webhooks/{webhook.pk}/{verb}", told | more)
        return [key["state"] for key in answer.json()["public_keys"]]

    in_an_hour = format_time(timezone.now() + timedelta(hours=1))
    assert states("rotate-secret", activate_at=in_an_hour) == ["next", "current"]
    assert states("activate-secret") == ["current", "previous"]
    assert states("revoke-previous-secret") == ["current"]


def test_rotating_a_key_that_signs_nothing_is_answered_with_a_warning(api, alice):
    webhook = make_webhook(alice)

    unused = api.call("POST", f"/v1/webhooks/{webhook.pk}/rotate-secret", {"scheme": "standard-ed25519"}).json()
    used = api.call("POST", f"/v1/webhooks/{webhook.pk}/rotate-secret", {}).json()

    assert unused["warnings"] == [
        "The webhook does not use the signature scheme standard-ed25519, so the new key signs nothing yet."
    ]
    assert used["warnings"] == []


def test_the_overlap_of_a_key_pair_is_ended_independently(api, alice):
    webhook = make_webhook(alice, signatures=["native", "standard-ed25519"])
    webhook.rotate_secret()
    webhook.rotate_secret(scheme="standard-ed25519")

    answer = api.call("POST", f"/v1/webhooks/{webhook.pk}/revoke-previous-secret", {"scheme": "standard-ed25519"})

    assert len(answer.json()["public_keys"]) == 1
    assert answer.json()["previous_secret_until"]


@pytest.mark.parametrize("verb", ["rotate-secret", "revoke-previous-secret"])
def test_an_unknown_scheme_has_no_key(api, alice, verb):
    webhook = make_webhook(alice)

    answer = api.call("POST", f"/v1/webhooks/{webhook.pk}/{verb}", {"scheme": "nobodys"})

    assert errors(answer) == {"scheme": ["Give a signature scheme that has keys of its own."]}


def test_standard_with_an_unsuitable_secret_requires_a_rotation(api, alice):
    webhook = make_webhook(alice, secret=SECRET)

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"signatures": ["native", "standard"]})

    (message,) = errors(answer)["signatures"]
    assert "whsec_" in message
    assert "Rotate the secret first" in message


def test_standard_signs_with_the_rotated_secret(api, alice):
    webhook = make_webhook(alice, secret=SECRET)
    api.call("POST", f"/v1/webhooks/{webhook.pk}/rotate-secret", {})

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"signatures": ["native", "standard"]})

    assert answer.status_code == 200


def test_a_rotation_to_a_secret_that_standard_cannot_use_is_refused(api, alice):
    webhook = make_webhook(alice, signatures=["native", "standard"])

    answer = api.call("POST", f"/v1/webhooks/{webhook.pk}/rotate-secret", {"secret": SECRET})

    assert "whsec_" in errors(answer)["secret"][0]


@pytest.mark.parametrize(
    ("signatures", "found"),
    [
        pytest.param([], "at least 1", id="none"),
        pytest.param(["quantum"], "unknown signature scheme", id="unknown"),
        pytest.param([1], "Not a valid string", id="number"),
        pytest.param("native", "Expected a list", id="text"),
        pytest.param(["native"] * 9, "no more than 8", id="many"),
    ],
)
def test_an_unusable_list_of_schemes_is_refused(api, signatures, found):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "signatures": signatures})

    assert found in str(errors(answer)["signatures"])
    assert not Webhook.objects.exists()


def test_only_offered_schemes_can_be_chosen(api, alice, settings):
    webhook = make_webhook(alice, signatures=["native", "standard"])
    settings.WEBHOOKS_SIGNATURES = ["native"]

    refused = api.call("POST", "/v1/webhooks", {**NEW, "signatures": ["standard"]})
    kept = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"description": "still signed by both"})

    assert errors(refused)["signatures"] == ["standard: not offered. Choose from native."]
    assert kept.json()["signatures"] == ["native", "standard"]


def test_an_unknown_scheme_has_no_key_to_rotate(api, alice):
    webhook = make_webhook(alice)

    answer = api.call("POST", f"/v1/webhooks/{webhook.pk}/rotate-secret", {"scheme": "standard"})

    assert errors(answer)["scheme"]
    assert SigningKey.objects.count() == 1
