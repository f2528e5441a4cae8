"""Replacing the secret of a webhook, and ending the overlap with the previous one."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from ..conf import known_signatures
from ..exceptions import WebhookStateError
from ..models import Webhook
from ..models.webhook_secret import SECRET
from ..reasons import ReasonText
from .actions import REPLACE_SECRET, REVOKE_PREVIOUS_SECRET, USE_PREPARED_SECRET
from .actors import BaseActor

__all__ = ["activate_secret", "revoke_previous_secret", "rotate_secret", "withdraw_secret"]


def rotate_secret(
    webhook: Webhook,
    *,
    actor: BaseActor,
    secret: str | None = None,
    overlap: timedelta | None = None,
    replaces: str = "",
    scheme: str = SECRET,
    activate_at: datetime | None = None,
) -> str:
    """Sign with a new key from the next attempt or ``activate_at`` on, and return it.

    Arguments are those of ``Webhook.rotate_secret``.

    ``replaces`` is the fingerprint of the scheme's key before the rotation. A newer key is kept, so that a form that is
    sent twice does not end the overlap of the first rotation.

    Raise django.core.exceptions.ValidationError for a secret or an overlap that is not allowed, and
    WebhookStateError for a deleted webhook, or for a secret that was rotated in the meantime.
    """
    with REPLACE_SECRET.on(webhook, actor):
        if replaces and replaces != fingerprint_of_key(webhook, scheme):
            raise WebhookStateError(ReasonText("secret_already_rotated", id=webhook.id))
        return webhook.rotate_secret(secret, overlap=overlap, scheme=scheme, activate_at=activate_at)


def activate_secret(webhook: Webhook, *, actor: BaseActor, scheme: str = SECRET) -> None:
    """Activate the prepared key, if there is one. Raise WebhookStateError for a deleted webhook."""
    with REPLACE_SECRET.on(webhook, actor):
        webhook.activate_secret(scheme=scheme)


def withdraw_secret(webhook: Webhook, *, actor: BaseActor, scheme: str = SECRET) -> None:
    """Delete the prepared key, if there is one. Raise WebhookStateError for a deleted webhook."""
    with REPLACE_SECRET.on(webhook, actor):
        webhook.withdraw_secret(scheme=scheme)


def revoke_previous_secret(webhook: Webhook, *, actor: BaseActor, scheme: str = SECRET) -> None:
    """End the overlap of a rotation, if there is one. Raise WebhookStateError for a deleted webhook."""
    with REPLACE_SECRET.on(webhook, actor):
        webhook.revoke_previous_secret(scheme=scheme)


def activate_prepared_keys(webhook: Webhook, *, actor: BaseActor) -> None:
    """Activate the prepared keys of all signature schemes.

    Raise WebhookStateError for a deleted webhook, AlreadyInStateError for one without.
    """
    with USE_PREPARED_SECRET.on(webhook, actor):
        for scheme in _key_schemes(webhook):
            webhook.activate_secret(scheme=scheme)


def withdraw_prepared_keys(webhook: Webhook, *, actor: BaseActor) -> None:
    """Delete the prepared keys of all signature schemes. Raise as ``activate_prepared_keys``."""
    with USE_PREPARED_SECRET.on(webhook, actor):
        for scheme in _key_schemes(webhook):
            webhook.withdraw_secret(scheme=scheme)


def revoke_previous_keys(webhook: Webhook, *, actor: BaseActor) -> None:
    """End the overlaps of all signature schemes.

    Raise WebhookStateError for a deleted webhook, AlreadyInStateError for one without.
    """
    with REVOKE_PREVIOUS_SECRET.on(webhook, actor):
        for scheme in _key_schemes(webhook):
            webhook.revoke_previous_secret(scheme=scheme)


def _key_schemes(webhook: Webhook) -> list[str]:
    used = {scheme.key_scheme for scheme in known_signatures().values()}
    return sorted(used & {key.scheme for key in webhook.signing_keys.all()})


def fingerprint_of_key(webhook: Webhook, scheme: str = SECRET) -> str:
    """Return a text that identifies the newest key of a scheme. It changes only with a rotation of this key."""
    key = webhook.prepared_key(scheme) or webhook.current_key(scheme)
    return "none" if key is None else str(key.pk)


def warning_about_key(webhook: Webhook, scheme: str) -> str:
    """Return a warning if no selected signature scheme uses the key of this scheme, otherwise ""."""
    if scheme in {selected.key_scheme for selected in webhook.schemes}:
        return ""
    return _("The webhook does not use the signature scheme %(scheme)s, so the new key signs nothing yet.") % {
        "scheme": scheme
    }
