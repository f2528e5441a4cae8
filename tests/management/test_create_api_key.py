"""``create_api_key``"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from webhooks_app.models import ApiKey
from webhooks_app.models.api_key import owner_scopes

from .conftest import Output

Run = Callable[..., Output]


def test_stdout_contains_only_a_valid_key(run: Run, owner: Any) -> None:
    output = run("create_api_key", "amina", "--name", "ci")

    api_key = ApiKey.objects.find(output.stdout.removesuffix("\n"))
    assert api_key is not None
    assert (api_key.owner, api_key.name, api_key.scopes) == (owner, "ci", owner_scopes())


def test_the_notes_do_not_repeat_the_key(run: Run, owner: Any) -> None:
    output = run("create_api_key", "amina")

    assert "It does not expire." in output.stderr
    assert output.stdout.strip() not in output.stderr


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_only_on_a_terminal_there_is_something_to_copy(owner: Any, is_terminal: bool) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    stdout.isatty = lambda: is_terminal  # type: ignore[method-assign]

    call_command("create_api_key", "amina", stdout=stdout, stderr=stderr)

    assert ("Copy it now" in stderr.getvalue()) is is_terminal


def test_scopes_narrow_the_key(run: Run, owner: Any) -> None:
    output = run("create_api_key", "amina", "--scopes", "events:read, webhooks:read")

    api_key = ApiKey.objects.find(output.stdout.strip())
    assert api_key is not None
    assert api_key.scopes == ["events:read", "webhooks:read"]


def test_the_key_expires_after_the_days_given(run: Run, owner: Any) -> None:
    run("create_api_key", "amina", "--expires-days", "2")

    api_key = ApiKey.objects.get()
    assert api_key.is_valid(timezone.now() + timedelta(days=1, hours=23))
    assert not api_key.is_valid(timezone.now() + timedelta(days=2, hours=1))


def test_create_user_creates_an_account_without_a_password(run: Run, db: None) -> None:
    run("create_api_key", "berta", "--create-user")

    account = get_user_model().objects.get(username="berta")
    assert not account.has_usable_password()
    assert account.webhook_api_keys.count() == 1


def test_create_user_uses_an_existing_account(run: Run, owner: Any) -> None:
    run("create_api_key", "amina", "--create-user")

    assert owner.webhook_api_keys.count() == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nobody"], "Add --create-user", id="unknown account"),
        pytest.param(
            ["amina", "--scopes", "webhooks:fly"], "Unknown scope 'webhooks:fly'. Available: ", id="unknown scope"
        ),
        pytest.param(["amina", "--scopes", ","], "No scope given", id="no scope"),
        pytest.param(["amina", "--expires-days", "0"], "must be 1 to", id="expired already"),
        pytest.param(["not a name!", "--create-user"], "cannot be created", id="impossible name"),
        pytest.param(["amina", "--name", "x" * 101], "name: ", id="long name"),
    ],
)
def test_invalid_options_are_refused_with_a_hint(run: Run, owner: Any, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        run("create_api_key", *arguments)

    assert message in str(caught.value)
    assert not ApiKey.objects.exists()


def test_an_inactive_account_gets_no_key(run: Run, owner: Any) -> None:
    owner.is_active = False
    owner.save()

    with pytest.raises(CommandError, match="not active"):
        run("create_api_key", "amina")


@pytest.mark.django_db
class TestWithAccountsNamedByTheirAddress:
    @pytest.fixture(autouse=True)
    def _username_field(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(get_user_model(), "USERNAME_FIELD", "email")

    def test_the_account_is_found_by_its_address(self, run: Run, owner: Any) -> None:
        run("create_api_key", "amina@example.com")

        assert owner.webhook_api_keys.count() == 1

    def test_an_account_with_other_required_fields_is_not_created(self, run: Run) -> None:
        with pytest.raises(CommandError, match="username: This field cannot be blank"):
            run("create_api_key", "berta@example.com", "--create-user")


def test_a_database_without_tables_is_an_error_without_a_traceback(begin: Any, tmp_path: Any) -> None:
    process = begin("create_api_key", "amina", TEST_DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3")

    stdout, stderr = process.communicate(timeout=60)

    assert process.returncode == 1
    assert stdout == ""
    assert "migrate" in stderr
    assert "Traceback" not in stderr


def test_a_service_key_has_no_owner_and_only_emits(run: Run, db: None) -> None:
    done = run("create_api_key", "--service", "--name", "billing")

    api_key = ApiKey.objects.get()
    assert (api_key.owner, api_key.scopes, api_key.name) == (None, ["events:emit"], "billing")
    assert f"Service key {api_key.pk} with the scopes events:emit." in done.stderr


@pytest.mark.parametrize("arguments", [[], ["--service", "--scopes", "events:read"], ["alice", "--service"]])
def test_a_key_needs_an_owner_or_the_service_option(run: Run, db: None, arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run("create_api_key", *arguments)
