"""Creating and changing webhooks, within the values that the settings offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import router
from django.utils.translation import gettext_lazy as _

from ..conf import (
    offered_operators,
    offered_orders,
    offered_policies,
    offered_recoveries,
    offered_signatures,
    parse_filter,
    retry_policy,
    settings,
    user_agent,
)
from ..database.sql import writing
from ..filters import COMBINING
from ..models import Episode, QueueEntry, QueueLane, Webhook, WebhookHealth
from ..models.audit import Action, acting
from ..models.limits import check_in_flight
from ..models.own_headers import UNCHANGED, Credentials, EncryptedHeaders, is_same_origin
from ..models.webhook import Order, default_recovery
from ..models.webhook_secret import default_signatures
from ..models.webhook_settings import SETTING_COLUMNS
from ..owners import check_owner, owner_rows
from ..protocol.json_data import dotted
from ..retry import BaseRetryPolicy
from ..signatures import BaseSignature
from .actions import UPDATE
from .actors import PROJECT, BaseActor
from .lifecycle import cancel_handshake, queue_handshake
from .rate_limits import limit_verification
from .rights import REGISTER_WEBHOOK, UPDATE_WEBHOOK

__all__ = ["create_webhook", "register_webhook", "update_webhook"]

FOLLOWING_FIELDS = ("encrypted_headers", "pending_url", "pending_headers", "status_reason")
"""The fields that follow from changes of others."""


def register_webhook(
    *,
    owner: Any,
    url: str,
    event_types: Sequence[str],
    secret: str | None = None,
    headers: Mapping[str, str] | None = None,
    basic_auth: Credentials = UNCHANGED,
    actor: BaseActor = PROJECT,
    **fields: Any,
) -> Webhook:
    """Create a webhook and start its verification; ``webhook.secret`` is the given secret or a new one.

    ``basic_auth`` is a pair of user name and password for the Authorization header.

    Raise django.core.exceptions.ValidationError with the problems by field, PermissionDenied, RateLimitedError and
    LimitsUnavailableError.
    """
    check_owner(owner)
    # A string would be split into its characters; the validation refuses it as a whole.
    names = event_types if isinstance(event_types, str) else list(event_types)
    fields.setdefault("recovery", default_recovery(fields.get("order", Order.NONE)))
    webhook = Webhook(owner=owner, url=url, event_types=names, **fields)
    if secret is not None:
        webhook.secret = secret
    create_webhook(webhook, headers=headers, basic_auth=basic_auth, actor=actor)
    return webhook


def create_webhook(
    webhook: Webhook,
    *,
    headers: Mapping[str, str] | None = None,
    basic_auth: Credentials = UNCHANGED,
    actor: BaseActor,
) -> None:
    """Validate and save a new webhook and start its verification. Raise as ``register_webhook``."""
    actor.require(REGISTER_WEBHOOK, webhook.owner_id)
    with acting(actor), writing(router.db_for_write(Webhook), Webhook):
        check_owner(webhook.owner)
        _lock_owner(webhook)
        _check_ceilings(webhook, actor)
        webhook.full_clean()
        webhook.set_headers(headers, basic_auth)
        check_offered(webhook)
        webhook.create_missing_keys()
        limit_verification(webhook, actor=actor)
        webhook.save(force_insert=True)
        queue_handshake(webhook, is_first=True)
        webhook.audit_creation(Action.WEBHOOK_CREATED)


def update_webhook(
    webhook: Webhook,
    *,
    actor: BaseActor,
    headers: Mapping[str, str] | None = None,
    basic_auth: Credentials = UNCHANGED,
    **changes: Any,
) -> None:
    """Change these fields of a webhook, and keep the others as they are saved; a new URL is verified first.

    The new URL of an active webhook becomes its ``pending_url``. Deliveries go on to the old URL until the new one is
    verified, and then to the new one. If its verification fails, the webhook stays as it was, and ``status_reason``
    has the reason. Another URL replaces the pending one; the current URL withdraws it.

    ``headers`` replaces all of the webhook's own headers. A change of the URL's scheme, host or port drops those that
    are not given again. Headers that are given with a new URL are sent only there.

    Raise django.core.exceptions.ValidationError with the problems by field, PermissionDenied, WebhookStateError for
    a deleted webhook, RateLimitedError and LimitsUnavailableError.
    """
    if unknown := changes.keys() - set(SETTING_COLUMNS):
        raise TypeError(f"Unknown or read-only fields: {', '.join(sorted(unknown))}.")
    with UPDATE.on(webhook, actor) as saved:
        for name in SETTING_COLUMNS:
            setattr(webhook, name, changes.get(name, getattr(saved, name)))
        url_before, webhook.encrypted_headers = _stored_headers(webhook, saved)
        actor.require(UPDATE_WEBHOOK, webhook.owner_id)
        if webhook.max_in_flight != saved.max_in_flight:
            _check_ceilings(webhook, actor)
        webhook.full_clean()
        webhook.set_headers(headers, basic_auth, url_before=url_before)
        check_offered(webhook, since=saved)
        webhook.create_missing_keys()
        if saved.status == Webhook.Status.ACTIVE:
            _await_url(webhook, saved, is_given="url" in changes)
        with webhook.auditing(Action.WEBHOOK_CHANGED, since=saved):
            webhook.save(update_fields=(*SETTING_COLUMNS, *FOLLOWING_FIELDS))
            if saved.filter != webhook.filter:
                QueueEntry.objects.using(webhook.alias).evaluate_again(webhook)
            if saved.order != webhook.order:
                QueueEntry.objects.using(webhook.alias).sort_again(webhook)
            if webhook.recovers_itself and not saved.recovers_itself:
                Episode.objects.using(webhook.alias).begin(webhook)
            if saved.url != webhook.url:
                _verify_again(webhook, actor)
            elif saved.pending_url != webhook.pending_url:
                _verify_pending(webhook, actor)


def _stored_headers(webhook: Webhook, saved: Webhook) -> tuple[str, EncryptedHeaders]:
    """Return the URL whose headers a changed webhook keeps, and these headers: those of the pending URL for another one
    of the same scheme, host and port.
    """
    is_new = webhook.url != saved.url and saved.is_changing_url
    if is_new and is_same_origin(saved.pending_url, webhook.url):
        return saved.pending_url, saved.pending_headers
    return saved.url, saved.encrypted_headers


def _await_url(webhook: Webhook, saved: Webhook, *, is_given: bool) -> None:
    """Keep the URL of an active webhook, with its headers, until those that were given are verified."""
    if webhook.url != saved.url:
        webhook.pending_url, webhook.pending_headers = webhook.url, webhook.encrypted_headers
        webhook.url, webhook.encrypted_headers = saved.url, saved.encrypted_headers
    elif is_given:
        webhook.pending_url, webhook.pending_headers = "", []
    elif webhook.encrypted_headers != saved.encrypted_headers and is_same_origin(saved.url, saved.pending_url):
        webhook.pending_headers = webhook.encrypted_headers
    if is_given:
        webhook.status_reason = ""


def _verify_pending(webhook: Webhook, actor: BaseActor) -> None:
    if webhook.pending_url:
        limit_verification(webhook, actor=actor)
        queue_handshake(webhook)
    else:
        cancel_handshake(webhook, "url_withdrawn")


def _verify_again(webhook: Webhook, actor: BaseActor) -> None:
    WebhookHealth.objects.clear(webhook)
    QueueLane.objects.forget_pace(webhook)
    if webhook.status != Webhook.Status.DISABLED:
        limit_verification(webhook, actor=actor)
        queue_handshake(webhook)


def _check_ceilings(webhook: Webhook, actor: BaseActor) -> None:
    """Raise ValidationError if the actor may not allow so many concurrent requests."""
    if webhook.max_in_flight is None or actor.may_exceed_ceilings:
        return
    try:
        check_in_flight(webhook.max_in_flight)
    except ValidationError as error:
        raise ValidationError({"max_in_flight": error}) from None


def check_offered(webhook: Webhook, *, since: Webhook | None = None) -> None:
    """Raise ValidationError for a value that the settings do not offer. Saved values remain allowed."""
    offered = offered_signatures()
    before = since.signatures if since is not None else default_signatures()
    if webhook.filter is not None and (since is None or webhook.filter != since.filter):
        _check_operators(webhook)
    if refused := [name for name in webhook.signatures if name not in offered and name not in before]:
        raise _not_offered("signatures", ", ".join(refused), offered)
    defaults = {"retry_policy": "", "order": Order.NONE, "recovery": default_recovery(webhook.order)}
    choices: dict[str, Iterable[str]] = {
        "retry_policy": ("", *offered_policies()),
        "order": offered_orders(),
        "recovery": offered_recoveries(),
    }
    for field, names in choices.items():
        kept = defaults[field] if since is None else getattr(since, field)
        if (chosen := getattr(webhook, field)) not in (kept, *names):
            raise _not_offered(field, chosen, filter(None, names))


def _check_operators(webhook: Webhook) -> None:
    offered = offered_operators()
    for use in parse_filter(webhook.filter).uses():
        if use.operator.name not in offered:
            raise _not_offered("filter", dotted((*use.keys, use.operator.name)), offered)


def _not_offered(field: str, refused: str, offered: Iterable[str]) -> ValidationError:
    message = _("%(refused)s: not offered. Choose from %(offered)s.")
    params = {"refused": refused, "offered": ", ".join(offered) or _("none")}
    return ValidationError({field: ValidationError(message, code="not_offered", params=params)})


def _lock_owner(webhook: Webhook) -> None:
    """Lock the owner, so that only one transaction at a time counts and adds its webhooks."""
    if webhook.owner_id is not None:
        accounts = owner_rows().select_for_update().filter(pk=webhook.owner_id)
        accounts.values_list("pk", flat=True).first()


def describe_offer() -> dict[str, Any]:
    """Return the values that owners may choose, with explanations, as plain data."""
    return {
        "signatures": [_signature(scheme) for scheme in offered_signatures().values()],
        "retry_policies": [_policy(policy) for policy in offered_policies().values()],
        "accepted_statuses": list(Webhook.AcceptedStatuses.values),
        "orders": list(offered_orders()),
        "recoveries": list(offered_recoveries()),
        "filter_operators": [*COMBINING, *offered_operators()],
        "sender": describe_sender(),
    }


def describe_sender() -> dict[str, Any]:
    """Return what receivers and their firewalls can recognise requests by."""
    return {"user_agent": user_agent(), "addresses": list(settings.EGRESS_ADDRESSES)}


def _signature(scheme: BaseSignature) -> dict[str, Any]:
    return {"name": scheme.name, "description": scheme.description, "headers": list(scheme.header_names)}


def _policy(policy: BaseRetryPolicy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "description": policy.description,
        "is_default": policy.name == retry_policy().name,
        "max_attempts": policy.max_attempts,
        "delays_seconds": [delay.total_seconds() for delay in policy.delays],
    }
