"""``rotate_webhook_secret``"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management.base import CommandError

from webhooks_app.models import AuditEntry, Webhook

from .conftest import SECRET, Output

Run = Callable[..., Output]


def test_only_the_new_secret_is_printed_and_the_old_one_still_signs(run: Run, webhook: Webhook) -> None:
    output = run("rotate_webhook_secret", webhook.pk, "--overlap-hours", "2")

    rotated = Webhook.objects.get()
    assert output.stdout == f"{rotated.secret}\n"
    assert rotated.verification_keys == [rotated.secret, SECRET]
    assert "also signs until" in output.stderr
    assert AuditEntry.objects.filter(action="webhook.secret_rotated", via="command").exists()


def test_the_public_key_of_a_pair_is_printed(run: Run, webhook: Webhook) -> None:
    run("configure_webhook", webhook.pk, "--signatures", "native", "standard-ed25519")

    output = run("rotate_webhook_secret", webhook.pk, "--scheme", "standard-ed25519")

    new, _old = Webhook.objects.get().public_keys
    assert output.stdout == f"{new['key']}\n"
    assert Webhook.objects.get().secret == SECRET


def test_a_key_that_signs_nothing_is_announced(run: Run, webhook: Webhook) -> None:
    output = run("rotate_webhook_secret", webhook.pk, "--scheme", "standard-ed25519")

    assert "does not use the signature scheme standard-ed25519" in output.stderr
    assert "does not use" not in run("rotate_webhook_secret", webhook.pk).stderr


def test_an_overlap_is_ended(run: Run, webhook: Webhook) -> None:
    run("rotate_webhook_secret", webhook.pk)

    notes = [run("rotate_webhook_secret", webhook.pk, "--end-overlap").stderr for _ in range(2)]

    assert len(Webhook.objects.get().verification_keys) == 1
    assert "has expired" in notes[0]
    assert "no old key" in notes[1]


@pytest.mark.parametrize(
    ("option", "note", "signs_new"),
    [("--activate", "The new key is active.", True), ("--withdraw", "The new key is withdrawn.", False)],
)
def test_a_prepared_key_is_activated_or_withdrawn(
    run: Run, webhook: Webhook, option: str, note: str, signs_new: bool
) -> None:
    prepared = run("rotate_webhook_secret", webhook.pk, "--activate-in-hours", "2")
    assert Webhook.objects.get().secret == SECRET
    assert "The old key signs as before until" in prepared.stderr

    notes = [run("rotate_webhook_secret", webhook.pk, option).stderr for _ in range(2)]

    assert Webhook.objects.get().secret == (prepared.stdout.strip() if signs_new else SECRET)
    assert note in notes[0]
    assert "There is no prepared key." in notes[1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(["--scheme", "standard"], "scheme that has keys of its own", id="scheme without keys"),
        pytest.param(["--overlap-hours", "169"], "must be 0 to 168", id="long overlap"),
        pytest.param(["--activate-in-hours", "169"], "must be 0 to 168", id="late activation"),
    ],
)
def test_an_invalid_rotation_is_refused(run: Run, webhook: Webhook, options: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run("rotate_webhook_secret", webhook.pk, *options)

    assert Webhook.objects.get().secret == SECRET
