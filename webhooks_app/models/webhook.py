"""A webhook: the registration of an endpoint for event types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.dispatch import Signal
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from ..conf import check_endpoint, known_policies, offered_recoveries, parse_filter, retry_policy, settings
from ..database.clock import now
from ..event_types import registry
from ..exceptions import InvalidEndpointError, InvalidFilterError, WebhookStateError
from ..filters import check_fields
from ..reasons import ReasonText, clipped, code_of
from ..signals import (
    announce_deliveries,
    webhook_being_disabled,
    webhook_disabled,
    webhook_paused,
    webhook_resumed,
    webhook_url_refused,
    webhook_verified,
)
from ..transport.endpoint import MAX_URL_LENGTH
from .audit import SYSTEM, Action, acting
from .base import BaseQuerySet, atomic
from .delivery_columns import FROM_POLICY
from .disclosure import UNREACHABLE_MESSAGES
from .fields import CompactJSONField, IdField, OwnerField, PartialIndex
from .limits import MAX_IN_FLIGHT, MAX_RATE, MIN_RATE, check_event_types
from .own_headers import OwnHeaders
from .signing_key import SigningKey
from .status import MAX_REASON_LENGTH, DeliveryKind, StatusRules
from .webhook_secret import SigningSecret
from .webhook_settings import MAX_DESCRIPTION_LENGTH, MAX_POLICY_NAME_LENGTH, WEBHOOK_SETTINGS

MAX_URL_IN_REASON = 100


def check_url(url: str) -> None:
    """Raise ValidationError unless the URL is allowed as an endpoint."""
    try:
        check_endpoint(url)
    except InvalidEndpointError as error:
        raise ValidationError(str(error), code=error.rule) from None


class Order(models.TextChoices):
    NONE = "none", _("none: deliveries are sent as soon as possible")
    WEBHOOK = "webhook", _("webhook: one delivery after the other")
    KEY = "key", _("key: one delivery after the other for each ordering key")


class Recovery(models.TextChoices):
    """What happens to the events that a webhook missed while it was failing."""

    MANUAL = "manual", _("manual: somebody starts it")
    AUTOMATIC = "automatic", _("automatic: missed events are sent again after the failure")


def default_recovery(order: str = Order.NONE) -> str:
    """Return the recovery of a new webhook with this order."""
    return Recovery.MANUAL.value if order != Order.NONE else offered_recoveries()[0]


class WebhookQuerySet(BaseQuerySet["Webhook"]):
    def bulk_create(self, objs: Iterable[Webhook], *args: Any, **kwargs: Any) -> list[Webhook]:
        """Create webhooks with their new keys."""
        with transaction.atomic(using=self.db):
            webhooks = super().bulk_create(objs, *args, **kwargs)
            SigningKey.objects.using(self.db).bulk_create(
                [key for webhook in webhooks for key in webhook.take_new_keys()], batch_size=500
            )
        return webhooks

    def existing(self) -> Self:
        return self.filter(deleted_at=None)

    def active(self) -> Self:
        return self.existing().filter(status=self.model.Status.ACTIVE)


class Webhook(OwnHeaders, StatusRules, SigningSecret):
    """The methods that change a row expect that the caller has locked it, as operations and workers do."""

    audited_fields = (
        *(each.audited for each in WEBHOOK_SETTINGS if each.audited),
        *("pending_url", "status", "paused_at", "deleted_at"),
    )

    class AcceptedStatuses(models.TextChoices):
        OK = "200", _("only 200")
        SUCCESS = "2xx", _("200 to 299")

    id = IdField(prefix="wh")
    owner = OwnerField(
        verbose_name=_("account"),
        null=True,
        blank=True,
        on_delete=models.DO_NOTHING,  # maintenance.forgetting deletes it before its owner
        related_name="webhooks",
    )
    url = models.CharField(_("URL"), max_length=MAX_URL_LENGTH)
    pending_url = models.CharField(_("new URL"), max_length=MAX_URL_LENGTH, blank=True, editable=False)
    event_types = models.JSONField(_("event types"), default=list)
    filter = CompactJSONField(
        _("filter"),
        null=True,
        blank=True,
        help_text=_("A condition on the data of events, as JSON; other events are not sent. Empty for all events."),
    )
    description = models.CharField(_("description"), max_length=MAX_DESCRIPTION_LENGTH, blank=True)
    retry_notices = models.BooleanField(
        _("retry notices"), default=True, help_text=_("Send webhook.retry after an attempt that will be retried.")
    )
    max_in_flight = models.PositiveSmallIntegerField(
        _("concurrent requests"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_IN_FLIGHT)],
        help_text=_(
            "Maximum of all workers together. Empty for the default in the settings. Only staff who manage all "
            "webhooks can allow more."
        ),
    )
    rate_limit = models.FloatField(
        _("deliveries per second"),
        null=True,
        blank=True,
        validators=[MinValueValidator(MIN_RATE), MaxValueValidator(MAX_RATE)],
        help_text=_("Maximum of all workers together, retries included. Empty for no limit."),
    )
    retry_policy = models.CharField(
        _("retry policy"),
        max_length=MAX_POLICY_NAME_LENGTH,
        blank=True,
        help_text=_("Empty for the default of the service."),
    )
    accepted_statuses = models.CharField(
        _("accepted statuses"),
        max_length=3,
        choices=AcceptedStatuses.choices,
        default=AcceptedStatuses.OK,
        help_text=_("Statuses that confirm receipt. The verification always needs 200."),
    )
    order = models.CharField(
        _("order"),
        max_length=7,
        choices=Order,
        default=Order.NONE,
        help_text=_("Deliveries that wait for an earlier one are sent when that has succeeded or was given up."),
    )
    recovery = models.CharField(
        _("recovery"),
        max_length=9,
        choices=Recovery,
        default=default_recovery,
        help_text=_("How events that were missed during a failure are recovered. With an order, only by hand."),
    )
    created_at = models.DateTimeField(_("created"), default=now, editable=False)

    objects = WebhookQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("owner", "-id"), name="webhooks_webhook_owner"),
            PartialIndex(fields=("paused_at",), only=models.Q(paused_at__isnull=False), name="webhooks_webhook_paused"),
            PartialIndex(
                fields=("status", "status_changed_at"), only=~models.Q(status="active"), name="webhooks_webhook_stopped"
            ),
        )
        permissions = (
            ("test_webhook", "Can send test events"),
            ("verify_webhook", "Can verify webhooks"),
            ("pause_webhook", "Can pause and resume webhooks"),
            ("replay_webhook", "Can replay events to webhooks"),
            ("rotate_webhook_secret", "Can rotate secrets of webhooks"),
            ("redeliver_delivery", "Can redeliver deliveries"),
            ("manage_all_webhooks", "Can manage the webhooks of every account"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.url})"

    @property
    def shown_status_changed_at(self) -> datetime | None:
        """The time of the last change of status, or None if it would reveal how long an unreachable URL took."""
        is_masked = self.status == self.Status.FAILED and self.status_reason in UNREACHABLE_MESSAGES
        return None if is_masked else self.status_changed_at

    @property
    def next_slot_at(self) -> datetime | None:
        """The time at which the rate limit allows the next delivery, or None before the first."""
        lane = getattr(self, "lane", None)
        return lane.next_slot_at if lane is not None else None

    @property
    def is_fast(self) -> bool | None:
        """Whether the last request was fast, or None before the first result."""
        lane = getattr(self, "lane", None)
        return lane.is_fast if lane is not None else None

    def clean(self) -> None:
        """Validate the changed fields. Saved values remain allowed, also if the settings no longer permit them."""
        saved = self._saved()
        errors: dict[str, list[Any]] = {}
        for field, check in self._checks(saved).items():
            try:
                check()
            except ValidationError as error:
                errors[field] = error.messages
        if errors:
            raise ValidationError(errors)

    def _checks(self, saved: Webhook | None) -> Mapping[str, Callable[[], None]]:
        """Return the checks to run, by field. The check of the signatures needs the secret."""
        checks = {
            ("url",): lambda: check_url(self.url),
            ("event_types",): lambda: self._clean_event_types(saved),
            ("filter", "event_types"): self.clean_filter,
            ("signatures",): self._clean_signatures,
            ("retry_policy",): self._clean_retry_policy,
            ("recovery", "order"): self._clean_recovery,
        }
        first = {"secret": self._clean_secret, "__all__": self._clean_count} if self._state.adding else {}
        return first | {
            fields[0]: check
            for fields, check in checks.items()
            if saved is None or any(getattr(self, field) != getattr(saved, field) for field in fields)
        }

    def _saved(self) -> Webhook | None:
        """Return the saved row, whose values remain allowed; None for a new webhook or after a change of the owner."""
        if self._state.adding:
            return None
        return Webhook.objects.using(self.alias).filter(pk=self.pk, owner=self.owner_id).first()

    def _clean_event_types(self, saved: Webhook | None) -> None:
        names = saved.event_types if saved is not None else ()
        self.event_types = check_event_types(self.event_types, owner=self.owner, saved=names)

    def clean_filter(self) -> None:
        """Raise ValidationError if the filter is invalid, or does not match the event types' schemas."""
        if self.filter is None:
            return
        schemas = {name: registry.get(name).json_schema() for name in self.event_types if name in registry}
        try:
            check_fields(parse_filter(self.filter), schemas)
        except InvalidFilterError as error:
            message = str(error) if error.path else _("The filter %(problem)s.") % {"problem": error.problem}
            raise ValidationError({"filter": message}, code="invalid_filter") from None

    def _clean_retry_policy(self) -> None:
        policies = known_policies()
        if self.retry_policy and self.retry_policy not in policies:
            raise ValidationError(
                _("%(name)s: unknown retry policy. Known: %(known)s."),
                code="unknown_retry_policy",
                params={"name": self.retry_policy, "known": ", ".join(policies)},
            )

    def _clean_recovery(self) -> None:
        if self.recovery == Recovery.AUTOMATIC and self.order != Order.NONE:
            raise ValidationError(
                _(
                    "Automatic recovery sends missed events after later ones, so a webhook with an order cannot use "
                    "it. Choose manual recovery, or no order."
                ),
                code="recovery_of_order",
            )

    @property
    def recovers_itself(self) -> bool:
        """Whether the service sends missed events again without a person, as chosen and as the settings allow."""
        is_chosen = self.recovery == Recovery.AUTOMATIC and self.order == Order.NONE
        return is_chosen and self.recovery in offered_recoveries()

    def retries_of(self, kind: str) -> dict[str, Any]:
        """Return the retry fields of a new delivery. A handshake uses the default policy of the service."""
        policy = retry_policy("" if kind == DeliveryKind.VERIFICATION else self.retry_policy)
        return {name: value(policy) for name, value in FROM_POLICY.items()}

    def _clean_count(self) -> None:
        if self.owner_id is None:
            return
        limit = settings.MAX_WEBHOOKS_PER_OWNER
        if Webhook.objects.existing().filter(owner=self.owner_id).count() >= limit:
            raise ValidationError(
                _("The limit of %(limit)s for this account's webhooks is reached. Delete one first."),
                code="too_many",
                params={"limit": limit},
            )

    def lock(self) -> Self:
        """Lock the webhook until the end of a transaction of ``writing()``, and reload all of its fields.

        Return another instance of the saved row. Raise WebhookStateError if the webhook was deleted after its
        retention.
        """
        saved = self.lock_saved()
        if saved is None:
            raise WebhookStateError(ReasonText("webhook_not_kept", id=self.id))
        self.adopt(saved)
        return saved

    @atomic
    def activate(self) -> None:
        """Activate the webhook after its handshake."""
        with acting(SYSTEM), self.auditing(Action.WEBHOOK_VERIFIED):
            self._change_status(self.Status.ACTIVE)
        self._announce(webhook_verified)

    @atomic
    def switch_url(self) -> None:
        """Replace the URL and its headers with the pending ones, whose handshake passed.

        The status begins anew: answers of the URL from before are not shown to the owner.
        """
        with acting(SYSTEM), self.auditing(Action.WEBHOOK_VERIFIED):
            self.url, self.encrypted_headers = self.pending_url, self.pending_headers
            self._change_status(self.Status.ACTIVE, "", "url", "encrypted_headers")
        self._announce(webhook_verified)

    @atomic
    def keep_url(self, reason: str) -> None:
        """Drop the pending URL, whose handshake failed. ``reason`` is for the owner."""
        url = self.pending_url
        with acting(SYSTEM), self.auditing(Action.VERIFICATION_FAILED, reason=reason):
            self.pending_url, self.pending_headers = "", []
            shown = Truncator(url).chars(MAX_URL_IN_REASON)
            self.status_reason = clipped(ReasonText("new_url_failed", url=shown, reason=reason), MAX_REASON_LENGTH)
            self.save(update_fields=["pending_url", "pending_headers", "status_reason"])
        self._announce(webhook_url_refused, url=url, reason=reason, reason_code=code_of(reason))

    def await_verification(self) -> None:
        """Hold events until a handshake passes."""
        self._change_status(self.Status.PENDING)

    @atomic
    def fail(self, reason: str) -> None:
        """Record a failed verification, and stop sending except of tests. ``reason`` is for the owner."""
        with acting(SYSTEM), self.auditing(Action.VERIFICATION_FAILED, reason=reason):
            self._change_status(self.Status.FAILED, reason)
        self.deliveries.cancel_stopped(self)
        self._announce(webhook_disabled, reason=reason, reason_code=code_of(reason))

    @atomic
    def disable(self, reason: str) -> None:
        """Stop sending, and cancel the first pending deliveries. ``reason`` is for the owner.

        Workers cancel the others of a long backlog in short transactions, also after ``fail`` and ``soft_delete``.
        """
        with self.auditing(Action.WEBHOOK_DISABLED, reason=reason):
            self.paused_at = None
            self._change_status(self.Status.DISABLED, reason, "paused_at")
        self.deliveries.cancel_stopped(self)
        webhook_being_disabled.send(Webhook, webhook=self)
        self._announce(webhook_disabled, reason=reason, reason_code=code_of(reason))

    @atomic
    def pause(self, reason: str = "") -> None:
        """Hold pending and new deliveries. Requests in flight continue. ``reason`` is for the audit log.

        Raise WebhookStateError if events cannot be queued for the webhook, AlreadyInStateError if it is paused.
        """
        self.require_unpaused()
        with self.auditing(Action.WEBHOOK_PAUSED, reason=reason):
            self.paused_at = now()
            self.save(update_fields=["paused_at"])
        self._announce(webhook_paused)

    @atomic
    def resume(self) -> None:
        """Send the held deliveries in the order of their due times, within the webhook's limits.

        Raise AlreadyInStateError for a webhook that is not paused.
        """
        self.require_paused()
        with self.auditing(Action.WEBHOOK_RESUMED):
            self.paused_at = None
            self.save(update_fields=["paused_at"])
        self._announce(webhook_resumed)
        announce_deliveries(self.alias)

    @atomic
    def soft_delete(self, reason: str = "") -> None:
        """Stop sending, as ``disable`` does, and hide the webhook. Its history stays until retention ends."""
        with self.auditing(Action.WEBHOOK_DELETED, reason=reason):
            self.deleted_at, self.paused_at = now(), None
            self.pending_url, self.pending_headers = "", []
            self.save(update_fields=["deleted_at", "paused_at", "pending_url", "pending_headers"])
        self.deliveries.cancel_stopped(self)

    def _announce(self, signal: Signal, **arguments: Any) -> None:
        transaction.on_commit(lambda: signal.send_robust(Webhook, webhook_id=self.id, **arguments), using=self.alias)
