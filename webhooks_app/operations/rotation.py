"""Replacing the secret of a webhook, and ending the overlap with the previous one."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from ..choices import known_signatures
from ..exceptions import WebhookStateError
from ..models import Webhook
from ..models.webhook_secret import SECRET
from .actors import BaseActor
from .performing import performing
from .rights import ROTATE_SECRET


def rotate_secret(
    webhook: Webhook,
    *,
    actor: BaseActor,
    secret: str | None = None,
    overlap: timedelta | None = None,
    replaces: str = "",
    scheme: str = SECRET,
) -> str:
    """Sign with a new key from the next attempt on, and return it. Arguments are those of ``Webhook.rotate_secret``.

    ``replaces`` is the fingerprint of the keys before the rotation. Newer keys are kept, so that a form that is sent
    twice does not end the overlap of the first rotation.

    Raises django.core.exceptions.ValidationError for a secret or an overlap that is not allowed, and
    WebhookStateError for a deleted webhook, or for a secret that was rotated in the meantime.
    """
    with performing(ROTATE_SECRET, webhook, actor) as saved:
        if replaces and replaces != fingerprint_of_keys(saved):
            raise WebhookStateError(
                f"The secret of webhook {webhook.id} was rotated in the meantime. It has not been replaced."
            )
        return webhook.rotate_secret(secret, overlap=overlap, scheme=scheme)


def revoke_previous_secret(webhook: Webhook, *, actor: BaseActor, scheme: str = SECRET) -> None:
    """End the overlap of a rotation, if there is one. Raises WebhookStateError for a deleted webhook."""
    with performing(ROTATE_SECRET, webhook, actor):
        webhook.revoke_previous_secret(scheme=scheme)


def revoke_previous_keys(webhook: Webhook, *, actor: BaseActor) -> None:
    """End the overlaps of all signature schemes. Raises WebhookStateError for a deleted webhook."""
    with performing(ROTATE_SECRET, webhook, actor) as saved:
        used = {scheme.key_scheme for scheme in known_signatures().values()}
        for scheme in sorted(used & {key.scheme for key in saved.signing_keys.all()}):
            webhook.revoke_previous_secret(scheme=scheme)


def fingerprint_of_keys(webhook: Webhook) -> str:
    """Return a text that identifies the current keys of a webhook, and reveals nothing of them."""
    current = sorted(key.encrypted_key for key in webhook.signing_keys.all() if key.valid_until is None)
    return hashlib.sha256("\n".join(current).encode()).hexdigest()[:16]
