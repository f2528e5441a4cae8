"""Verifying, pausing, resuming, disabling, enabling and deleting webhooks, and removing what belongs to an owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import models, router

from ..maintenance import forgetting
from ..maintenance.forgetting import Forgotten
from ..models import Delivery, Event, QueueEntry, Webhook, WebhookHealth
from ..models.audit import Action, acting
from ..reasons import ReasonText
from ..signals import announce_deliveries
from .actions import DISABLE, ENABLE, PAUSE, REMOVE_WEBHOOK, RESUME, VERIFY
from .actors import PROJECT, BaseActor
from .rate_limits import limit_verification
from .rights import FORGET_OWNER

__all__ = ["delete", "disable", "enable", "forget_events", "forget_owner", "pause", "resume", "start_verification"]


def pause(webhook: Webhook, *, actor: BaseActor, reason: str = "") -> None:
    """Hold pending and new deliveries; deliveries in flight finish, and nothing is lost.

    ``reason`` is a person's own words for the owner and the audit log, here and in ``disable`` and ``delete``.

    Raise WebhookStateError for a webhook that is disabled, failed or deleted, and AlreadyInStateError for a paused
    one.
    """
    with PAUSE.on(webhook, actor):
        webhook.pause(reason)


def resume(webhook: Webhook, *, actor: BaseActor) -> None:
    """Send the held deliveries, the longest due first.

    Raise WebhookStateError for a deleted webhook, and AlreadyInStateError for one that is not paused.
    """
    with RESUME.on(webhook, actor):
        webhook.resume()


def disable(webhook: Webhook, *, actor: BaseActor, reason: str = "") -> None:
    """Stop sending and cancel pending deliveries.

    Raise WebhookStateError for a deleted webhook, and AlreadyInStateError for a disabled one.
    """
    with DISABLE.on(webhook, actor):
        webhook.disable(_disabled_by(actor, webhook, reason))


def _disabled_by(actor: BaseActor, webhook: Webhook, reason: str) -> ReasonText:
    """Return the reason that owners read in the API, in English; it contains no names."""
    is_owner = actor.is_owner(webhook.owner_id)
    if not reason:
        return ReasonText("disabled_by_owner" if is_owner else "disabled_by_operator")
    return ReasonText("disabled_by_owner_because" if is_owner else "disabled_by_operator_because", words=reason)


def enable(webhook: Webhook, *, actor: BaseActor) -> None:
    """Verify a disabled webhook, which then receives events again.

    Raise WebhookStateError for a webhook that failed its verification or is deleted, AlreadyInStateError for any
    other that is not disabled, RateLimitedError and LimitsUnavailableError.
    """
    with ENABLE.on(webhook, actor):
        limit_verification(webhook, actor=actor)
        with webhook.auditing(Action.WEBHOOK_ENABLED):
            WebhookHealth.objects.clear(webhook)
            queue_handshake(webhook)


def delete(webhook: Webhook, *, actor: BaseActor, reason: str = "") -> None:
    """Stop sending, cancel pending deliveries and hide the webhook; its history stays until retention ends.

    Raise WebhookStateError for a deleted webhook.
    """
    with REMOVE_WEBHOOK.on(webhook, actor):
        webhook.soft_delete(reason)


def start_verification(webhook: Webhook, *, actor: BaseActor) -> Delivery:
    """Queue a handshake of a webhook that is not active, or of a pending URL; an earlier one becomes ineffective.

    Raise WebhookStateError for a deleted, disabled or paused webhook, AlreadyInStateError for a verified one,
    RateLimitedError and LimitsUnavailableError.
    """
    with VERIFY.on(webhook, actor):
        limit_verification(webhook, actor=actor)
        with webhook.auditing(Action.VERIFICATION_STARTED):
            if webhook.is_stopped:
                WebhookHealth.objects.clear(webhook)
            return queue_handshake(webhook)


def queue_handshake(webhook: Webhook, *, is_first: bool = False) -> Delivery:
    """Hold the events of a locked webhook and queue a handshake, as a part of another operation.

    A pause may hold the handshake. An earlier one is cancelled. ``is_first`` is for a new webhook, which is pending.
    The handshake of a pending URL holds nothing, and no pause holds it.
    """
    if not is_first:
        if not webhook.is_changing_url:
            webhook.await_verification()
        cancel_handshake(webhook, "superseded")
    delivery = Delivery.objects.queue(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    announce_deliveries(delivery.alias)
    return delivery


def cancel_handshake(webhook: Webhook, reason: str) -> None:
    """Cancel the handshake of a locked webhook, if there is one."""
    entries = QueueEntry.objects.using(webhook.alias).filter(webhook=webhook, kind=Delivery.Kind.VERIFICATION)
    webhook.deliveries.handshakes().cancel(reason, among=entries)


def forget_events(events: models.QuerySet[Event], *, actor: BaseActor = PROJECT) -> Forgotten:
    """Delete the events of a queryset with their deliveries and attempts, in short transactions.

    Pending deliveries are not sent. A request in flight is not stopped, and its result is not recorded. An interrupted
    call can be repeated.
    """
    for owner_id in events.order_by().values_list("owner", flat=True).distinct():
        actor.require(FORGET_OWNER, owner_id)
    return forgetting.forget_events(router.db_for_write(Event), events)


def forget_owner(
    owner: Any, *, actor: BaseActor = PROJECT, progress: Callable[[int], object] = lambda count: None
) -> Forgotten:
    """Delete the webhooks, API keys and events of an owner, with their deliveries, in short transactions.

    The webhooks are stopped first. The owner itself remains; call this before you delete an owner with a long history.
    Audit entries remain until their retention ends. ``progress`` is called after each transaction with its number of
    events and deliveries. An interrupted call can be repeated.
    """
    actor.require(FORGET_OWNER, owner.pk)
    with acting(actor):
        return forgetting.forget(router.db_for_write(Webhook), owner.pk, progress)
