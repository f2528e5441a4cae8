"""Checks of the owner model and the owner policy."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from .conftest import Found


def test_another_owner_model_than_that_of_the_tables_is_an_error(db: None) -> None:
    with override_settings(WEBHOOKS_OWNER_MODEL="auth.Group"):
        found = [message for message in run_checks(databases=["default"]) if message.id == "webhooks_app.E032"]

    [message] = found
    assert "auth.Group (table auth_group)" in message.msg
    assert "refer to the table auth_user" in message.msg
    assert "migrate webhooks_app zero" in str(message.hint)


def test_the_owner_model_of_the_tables_is_fine(db: None) -> None:
    assert "webhooks_app.E032" not in {message.id for message in run_checks(databases=["default"])}


@pytest.mark.parametrize("name", ["Organization", "auth.Organization", "auth.User.name", "nowhere.Model"])
def test_an_unknown_owner_model_is_an_error(found: Any, name: str) -> None:
    with override_settings(WEBHOOKS_OWNER_MODEL=name):
        messages: Found = found()

    assert name in messages["webhooks_app.E030"].msg
    assert "app_label.ModelName" in str(messages["webhooks_app.E030"].hint)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param("nowhere.Owners", "cannot be imported", id="missing module"),
        pytest.param("django.db.models.Model", "is not a subclass of BaseOwners", id="no policy"),
        pytest.param("webhooks_app.owners.MemberOwners", "auth.User has no 'members'", id="no members"),
    ],
)
def test_an_invalid_policy_is_an_error(found: Any, path: str, problem: str) -> None:
    with override_settings(WEBHOOKS_OWNERS=path):
        assert problem in found()["webhooks_app.E031"].msg


def test_a_policy_for_users_does_not_fit_another_owner_model(found: Any) -> None:
    with override_settings(WEBHOOKS_OWNER_MODEL="auth.Group"):
        message = found()["webhooks_app.E031"]

    assert "UserOwners requires the user model, but WEBHOOKS_OWNER_MODEL is auth.Group" in message.msg
    assert "webhooks_app.owners.MemberOwners" in message.hint
