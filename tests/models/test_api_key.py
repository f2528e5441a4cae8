"""API keys: shown once, stored as hashes, found by their text."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from webhooks_app.exceptions import AlreadyInStateError
from webhooks_app.models import ApiKey
from webhooks_app.models.api_key import owner_scopes

pytestmark = pytest.mark.django_db


def test_a_key_is_found_by_its_text(alice):
    api_key, text = ApiKey.objects.make(owner=alice)

    assert ApiKey.objects.find(text) == api_key


def test_the_text_is_not_stored(alice):
    _, text = ApiKey.objects.make(owner=alice, name="CI")

    assert text.split("_", 2)[2] not in str(ApiKey.objects.values().get())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text[:-1], id="shorter"),
        pytest.param(lambda text: f"{text}x", id="longer"),
        pytest.param(str.swapcase, id="other case"),
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: "whk_x_y", id="short"),
        pytest.param(lambda text: "\ud800_\0_x", id="no text"),
        pytest.param(lambda text: f"whk_\0_{text}", id="NUL"),
    ],
)
def test_another_text_finds_nothing(alice, change):
    _, text = ApiKey.objects.make(owner=alice)

    assert ApiKey.objects.find(change(text)) is None


def test_a_revoked_key_is_refused_at_once(alice):
    api_key, text = ApiKey.objects.make(owner=alice)
    api_key.revoke()

    assert ApiKey.objects.find(text) is None


def test_revoking_again_does_not_change_the_time(alice):
    api_key, _ = ApiKey.objects.make(owner=alice)
    api_key.revoke()
    first = api_key.revoked_at

    with pytest.raises(AlreadyInStateError, match="already revoked"), transaction.atomic():
        ApiKey.objects.get().revoke()

    assert ApiKey.objects.get().revoked_at == first


@pytest.mark.parametrize("scopes", [None, "webhooks:read", 5, {}, [None], [["webhooks:read"]]], ids=repr)
def test_scopes_must_be_a_list_of_scopes(alice, scopes):
    with pytest.raises(ValidationError) as caught:
        ApiKey.objects.make(owner=alice, scopes=scopes)

    assert list(caught.value.message_dict) == ["scopes"]
    assert not ApiKey.objects.exists()


def test_an_expired_key_is_refused(alice):
    _, text = ApiKey.objects.make(owner=alice, expires_at=timezone.now() - timedelta(seconds=1))

    assert ApiKey.objects.find(text) is None


def test_the_key_of_an_inactive_account_is_refused(alice):
    _, text = ApiKey.objects.make(owner=alice)
    alice.is_active = False
    alice.save()

    assert ApiKey.objects.find(text) is None


def test_a_key_has_all_scopes_by_default(alice):
    everything, _ = ApiKey.objects.make(owner=alice)
    narrow, _ = ApiKey.objects.make(owner=alice, scopes=["events:read"])

    assert everything.scopes == owner_scopes()
    assert narrow.scopes == ["events:read"]


@pytest.mark.parametrize("scopes", [[], ["all"], ["events:read", "x"]])
def test_unknown_scopes_are_refused(alice, scopes):
    with pytest.raises(ValidationError, match="webhooks:read"):
        ApiKey.objects.make(owner=alice, scopes=scopes)


def test_the_last_use_is_recorded_to_the_minute(alice, django_assert_num_queries):
    api_key, _ = ApiKey.objects.make(owner=alice)

    with django_assert_num_queries(1):
        api_key.touch()
        api_key.touch()

    assert timezone.now() - ApiKey.objects.get().last_used_at < timedelta(minutes=1)
