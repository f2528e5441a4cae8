"""``reencrypt_webhook_secrets``"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from webhooks_app.delivery.engine import Engine
from webhooks_app.emission import emit
from webhooks_app.management.commands import reencrypt_webhook_secrets as reencryption
from webhooks_app.models import SigningKey, Webhook
from webhooks_app.protocol.ids import new_id
from webhooks_app.receiver.local import LocalReceiver

from .conftest import SECRET, Output

Run = Callable[..., Output]

OLD, NEW, LOST = (Fernet.generate_key().decode() for _ in range(3))
URL = "https://receiver.example.com/hooks"
DATA = {"file_id": "file_1", "user_id": "user_1", "filename": "a.pdf"}


@pytest.fixture
def keys(settings: Any) -> Callable[..., None]:
    """Configure the encryption keys."""

    def keys(*names: str) -> None:
        settings.WEBHOOKS_ENCRYPTION_KEYS = list(names)

    keys(OLD)
    return keys


@pytest.fixture
def webhooks(keys: Callable[..., None], owner: Any) -> list[Webhook]:
    """Webhooks from before the change of keys: two with one secret, one within the overlap of a rotation."""
    ids = sorted(new_id("wh") for _ in range(3))
    made = [Webhook(pk=pk, owner=owner, url=URL, secret=f"the secret of number {n}") for n, pk in enumerate(ids)]
    for webhook in made:
        webhook.save()
    made[2].rotate_secret("the secret that came later")
    return made


def secrets() -> list[str]:
    return [webhook.secret for webhook in Webhook.objects.order_by("pk")]


def test_the_new_key_decrypts_every_secret(run: Run, webhooks: list[Webhook], keys: Callable[..., None]) -> None:
    before = secrets()
    keys(NEW, OLD)

    output = run("reencrypt_webhook_secrets")

    keys(NEW)
    assert output.stdout == "4 secrets re-encrypted, 0 already use the first key.\n"
    assert secrets() == before
    assert Webhook.objects.get(pk=webhooks[2].pk).previous_key("native").key == "the secret of number 2"


def test_a_second_run_changes_nothing(run: Run, webhooks: list[Webhook], keys: Callable[..., None]) -> None:
    keys(NEW, OLD)
    run("reencrypt_webhook_secrets")
    before = list(SigningKey.objects.order_by("pk").values())

    output = run("reencrypt_webhook_secrets")

    assert output.stdout == "0 secrets re-encrypted, 4 already use the first key.\n"
    assert list(SigningKey.objects.order_by("pk").values()) == before


def test_a_dry_run_counts_and_changes_nothing(run: Run, webhooks: list[Webhook], keys: Callable[..., None]) -> None:
    keys(NEW, OLD)
    before = list(SigningKey.objects.order_by("pk").values())

    output = run("reencrypt_webhook_secrets", "--dry-run")

    assert output.stdout == "4 secrets would be re-encrypted, 0 already use the first key.\n"
    assert list(SigningKey.objects.order_by("pk").values()) == before


def test_secrets_move_from_the_derived_key_to_a_configured_key(
    run: Run, webhooks: list[Webhook], keys: Callable[..., None]
) -> None:
    keys("SECRET_KEY", OLD)
    run("reencrypt_webhook_secrets")
    keys()
    before = secrets()

    keys(NEW, "SECRET_KEY")
    run("reencrypt_webhook_secrets")

    keys(NEW)
    assert secrets() == before


def test_secrets_move_away_from_a_previous_secret_key(
    run: Run, webhooks: list[Webhook], keys: Callable[..., None], settings: Any
) -> None:
    keys("SECRET_KEY", OLD)
    run("reencrypt_webhook_secrets")
    keys()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "the one after that"
    run("reencrypt_webhook_secrets")

    settings.SECRET_KEY_FALLBACKS = []
    assert secrets() == ["the secret of number 0", "the secret of number 1", "the secret that came later"]


def test_webhooks_with_undecryptable_secrets_are_named_and_skipped(
    webhooks: list[Webhook], keys: Callable[..., None]
) -> None:
    keys(LOST)
    webhooks[0].rotate_secret("the secret that is lost", overlap=timedelta(0))
    keys(NEW, OLD)
    errors = io.StringIO()

    with pytest.raises(CommandError, match=r"^1 webhook has a secret") as caught:
        call_command("reencrypt_webhook_secrets", stdout=io.StringIO(), stderr=errors)

    assert caught.value.returncode == 1
    assert errors.getvalue() == f"No key decrypts the secret of {webhooks[0].pk}.\n"
    keys(NEW)
    assert Webhook.objects.get(pk=webhooks[1].pk).secret == "the secret of number 1"


def test_a_secret_rotated_in_the_meantime_is_not_overwritten(
    webhooks: list[Webhook], keys: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(NEW, OLD)
    encrypt = reencryption.encrypt

    def rotate_first(text: str) -> str:
        monkeypatch.setattr(reencryption, "encrypt", encrypt)
        Webhook.objects.get(pk=webhooks[0].pk).rotate_secret("rotated meanwhile", overlap=timedelta(0))
        return encrypt(text)

    monkeypatch.setattr(reencryption, "encrypt", rotate_first)
    result = reencryption.reencrypt()

    assert Webhook.objects.get(pk=webhooks[0].pk).secret == "rotated meanwhile"
    assert (result.renewed, result.current) == (3, 1)


def test_every_batch_is_visited(
    webhooks: list[Webhook], keys: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reencryption, "BATCH_SIZE", 1)
    keys(NEW, OLD)

    assert reencryption.reencrypt().renewed == 4


def test_expired_secrets_are_removed(run: Run, webhooks: list[Webhook], keys: Callable[..., None]) -> None:
    SigningKey.objects.exclude(valid_until=None).update(
        valid_until=timezone.now() - timedelta(seconds=2), encrypted_key="nonsense"
    )

    counted = run("reencrypt_webhook_secrets", "--dry-run")
    run("reencrypt_webhook_secrets")

    assert counted.stdout == "0 secrets would be re-encrypted, 3 already use the first key.\n"
    assert not SigningKey.objects.exclude(valid_until=None).exists()


def test_an_interruption_keeps_finished_batches(
    run: Run, webhooks: list[Webhook], keys: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(NEW, OLD)
    tokens = iter([reencryption.encrypt("the secret of number 0")])

    def interrupted(text: str) -> str:
        try:
            return next(tokens)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(reencryption, "encrypt", interrupted)
    with pytest.raises(CommandError, match="Run the command again") as caught:
        run("reencrypt_webhook_secrets")

    assert caught.value.returncode == 130
    keys(NEW)
    assert Webhook.objects.get(pk=webhooks[0].pk).secret == "the secret of number 0"


def test_a_terminal_shows_the_progress(webhooks: list[Webhook]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    call_command("reencrypt_webhook_secrets", stdout=io.StringIO(), stderr=terminal)

    assert "[#######.......................]  25% of 4 secrets" in terminal.getvalue()
    assert f"\r[{'#' * 30}] 100% of 4 secrets\n" in terminal.getvalue()


def test_only_the_result_is_printed_without_a_terminal(run: Run, webhooks: list[Webhook]) -> None:
    assert run("reencrypt_webhook_secrets").stderr == ""


@pytest.mark.django_db(transaction=True)
def test_workers_deliver_while_the_keys_change(
    run: Run, webhook: Webhook, receiver: LocalReceiver, worker: Engine, keys: Callable[..., None]
) -> None:
    keys(NEW, "SECRET_KEY", OLD)

    for _ in range(5):
        emit("file.deleted", DATA, owner=webhook.owner)
        worker.wake()
        run("reencrypt_webhook_secrets")

    assert receiver.wait_until(lambda received: len(received) == 5, timeout_seconds=30)
    assert [received.is_verified for received in receiver.received] == [True] * 5
    keys(NEW)
    assert Webhook.objects.get().secret == SECRET
