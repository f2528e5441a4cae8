"""One event on its way to one webhook, and the requests that were made for it."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any, Self

from django.conf import settings as django_settings
from django.db import DEFAULT_DB_ALIAS, connections, models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..exceptions import InvalidEndpointError, WebhookStateError
from ..handshake import challenge_body
from ..retry import RetrySchedule
from ..signals import deliveries_created
from ..signing import EVENT_HEADER, PREVIOUS_SIGNATURE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from ..transport.endpoint import parse_endpoint
from .audit import Action, AuditEntry
from .event import Event
from .fields import IdField, PartialIndex
from .sql import UtcNow, writing
from .webhook import Webhook

ANYWHERE = (ip_network("0.0.0.0/0"), ip_network("::/0"))


def configured_schedule() -> RetrySchedule:
    return RetrySchedule.of_seconds(settings.RETRY_DELAYS_SECONDS)


def configured_max_attempts() -> int:
    return configured_schedule().max_attempts


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(webhook__owner=owner)

    def pending(self) -> Self:
        return self.filter(state=Delivery.State.PENDING)

    def waiting(self) -> Self:
        """Return what is to be sent and not being sent right now."""
        return self.pending().filter(claimed_at=None)

    def except_tests(self) -> Self:
        return self.exclude(kind=Delivery.Kind.TEST)

    def final(self) -> Self:
        return self.exclude(state=Delivery.State.PENDING)

    def is_listed(self, state: str) -> bool:
        """Tell whether an index lists the deliveries in this state, by identifier."""
        return state in Delivery.LISTED_STATES and connections[self.db].features.supports_partial_indexes

    def queue(self, **fields: Any) -> Delivery:
        """Create a delivery that is due now, by the database's clock, so that no process's own can hold it up."""
        delivery = self.create(next_attempt_at=UtcNow(), **fields)
        delivery.refresh_from_db(fields=["next_attempt_at"])
        return delivery

    def cancel(self, reason: str) -> int:
        return self.update(
            state=Delivery.State.CANCELLED,
            state_reason=reason,
            finished_at=UtcNow(),
            next_attempt_at=None,
            claimed_at=None,
        )


class Delivery(models.Model):
    class Kind(models.TextChoices):
        EVENT = "event", _("event")
        TEST = "test", _("test")
        RETRY_NOTICE = "retry_notice", _("retry notice")
        VERIFICATION = "verification", _("verification")

    class State(models.TextChoices):
        PENDING = "pending", _("pending")
        SUCCEEDED = "succeeded", _("succeeded")
        GIVEN_UP = "given_up", _("given up")
        CANCELLED = "cancelled", _("cancelled")

    id = IdField(prefix="dlv")
    event = models.ForeignKey(
        Event,
        verbose_name=_("event"),
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_constraint=False,  # inserted with its event, or for one that is there; removed with it
        help_text=_("Empty for a verification, which is not an event."),
    )
    # No constraint in the database: checking it would lock the webhook's row in every emitting transaction, and that
    # row is the lock under which workers claim. Rows are only inserted from existing webhooks, which are never removed
    # while they have deliveries.
    webhook = models.ForeignKey(
        Webhook,
        verbose_name=_("webhook"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_constraint=False,
        db_index=False,
    )
    kind = models.CharField(_("kind"), max_length=12, choices=Kind.choices, default=Kind.EVENT, editable=False)
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.PENDING, editable=False)
    state_reason = models.CharField(_("reason"), max_length=100, blank=True, editable=False)
    attempt_count = models.PositiveSmallIntegerField(_("attempts"), default=0, editable=False)
    max_attempts = models.PositiveSmallIntegerField(
        _("attempts at most"), default=configured_max_attempts, editable=False
    )
    next_attempt_at = models.DateTimeField(
        _("next attempt"),
        null=True,
        editable=False,
        default=timezone.now,
        help_text=_("While an attempt is being made: when its claim is taken to be lost."),
    )
    claimed_at = models.DateTimeField(_("claimed"), null=True, editable=False)
    expires_at = models.DateTimeField(
        _("expires"), null=True, editable=False, help_text=_("Nothing is sent, or waited for, after this time.")
    )
    last_result = models.CharField(_("last result"), max_length=20, blank=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    finished_at = models.DateTimeField(_("finished"), null=True, editable=False)
    redelivery_of = models.ForeignKey(
        "self",
        verbose_name=_("redelivery of"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
    )
    requested_by = models.ForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("requested by"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
    )
    replay = models.ForeignKey(
        "webhooks_app.Replay",
        verbose_name=_("replay"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="deliveries",
        db_constraint=False,  # inserted while its replay's row is locked
        db_index=False,
    )

    objects = DeliveryQuerySet.as_manager()

    LISTED_STATES = (State.GIVEN_UP, State.CANCELLED)
    """States that few deliveries end in: an index lists them, where the database has partial ones."""

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        ordering = ("-id",)
        indexes = (
            PartialIndex(
                fields=("webhook", "next_attempt_at"),
                only=models.Q(state="pending"),
                otherwise=("state", "webhook", "next_attempt_at"),
                name="webhooks_delivery_due",
            ),
            PartialIndex(
                fields=("webhook", "claimed_at"),
                only=models.Q(claimed_at__isnull=False),
                name="webhooks_delivery_claimed",
            ),
            PartialIndex(
                fields=("redelivery_of",),
                only=models.Q(redelivery_of__isnull=False),
                name="webhooks_delivery_again",
            ),
            PartialIndex(
                fields=("replay", "-id"), only=models.Q(replay__isnull=False), name="webhooks_delivery_replay"
            ),
            # For lists of what went wrong, and a webhook's handshakes: few among millions, at no cost to the others.
            PartialIndex(
                fields=("state", "-id"),
                only=models.Q(state__in=("given_up", "cancelled")),
                otherwise=None,
                name="webhooks_delivery_failed",
            ),
            PartialIndex(
                fields=("webhook", "state", "-id"),
                only=models.Q(state__in=("given_up", "cancelled")),
                otherwise=None,
                name="webhooks_delivery_failed_of",
            ),
            PartialIndex(
                fields=("webhook", "-id"),
                only=models.Q(kind="verification"),
                otherwise=None,
                name="webhooks_delivery_handshake",
            ),
            models.Index(fields=("webhook", "-id"), name="webhooks_delivery_webhook"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"

    @property
    def event_type(self) -> str:
        return self.event.type if self.event else "webhook.verification"

    def redeliver(self, requested_by: Any = None) -> Delivery:
        """Start a new series of attempts of the same event, linked to the first one.

        Raises WebhookStateError for a disabled webhook, and for an event whose body is no longer kept. For one that is
        paused it waits with the others; a test is refused, because somebody waits for it.
        """
        if self.event_id is None:
            raise WebhookStateError("A verification is not redelivered; verify the webhook again.")
        if self.kind == self.Kind.TEST:
            self.webhook.require_testable()
            self.webhook.require_running()
        else:
            self.webhook.require_sendable()
        using = self._state.db or DEFAULT_DB_ALIAS
        with writing(using, Delivery):
            # Pruning locks an event before it takes its body, or the event, away.
            event = Event.objects.using(using).select_for_update().filter(pk=self.event_id).first()
            if event is None:
                raise WebhookStateError(f"Event {self.event_id} is no longer kept: its retention ended.")
            event.require_body()
            delivery = Delivery.objects.using(using).queue(
                event=event,
                webhook=self.webhook,
                kind=self.kind,
                max_attempts=self.max_attempts,
                redelivery_of_id=self.redelivery_of_id or self.pk,
                requested_by=requested_by,
            )
            AuditEntry.objects.write(
                Action.DELIVERY_REDELIVERED,
                self,
                owner_id=self.webhook.owner_id,
                changes={"redelivery": [None, delivery.pk]},
            )
        transaction.on_commit(lambda: deliveries_created.send_robust(Delivery), using=delivery._state.db)
        return delivery


class DeliveryAttempt(models.Model):
    class Result(models.TextChoices):
        SUCCEEDED = "succeeded", _("succeeded")
        HTTP_STATUS = "http_status", _("status other than 200")
        TIMEOUT = "timeout", _("timeout")
        CONNECTION_ERROR = "connection_error", _("connection error")
        DNS_ERROR = "dns_error", _("name not resolved")
        TLS_ERROR = "tls_error", _("TLS error")
        INVALID_RESPONSE = "invalid_response", _("invalid response")
        ADDRESS_REFUSED = "address_refused", _("address refused")
        WRONG_CHALLENGE = "wrong_challenge", _("wrong challenge answer")
        WORKER_LOST = "worker_lost", _("worker lost")
        INTERNAL_ERROR = "internal_error", _("internal error")

    id = IdField(prefix="att")
    delivery = models.ForeignKey(
        Delivery,
        verbose_name=_("delivery"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="attempts",
        db_constraint=False,  # inserted while its delivery's row is locked; removed before it
        db_index=False,
    )
    number = models.PositiveSmallIntegerField(_("number"), editable=False)
    result = models.CharField(_("result"), max_length=20, choices=Result.choices, editable=False)
    message = models.CharField(_("message"), max_length=500, blank=True, editable=False)
    started_at = models.DateTimeField(_("started"), editable=False)
    duration_ms = models.PositiveIntegerField(_("duration (ms)"), null=True, editable=False)
    url = models.CharField(_("URL"), max_length=2048, editable=False)
    timestamp = models.BigIntegerField(_("timestamp"), null=True, editable=False)
    signature = models.CharField(_("signature"), max_length=80, blank=True, editable=False)
    challenge = models.CharField(_("challenge"), max_length=64, blank=True, editable=False)
    response_status = models.PositiveSmallIntegerField(_("response status"), null=True, editable=False)
    response_headers = models.JSONField(_("response headers"), default=list, editable=False)
    response_body = models.TextField(_("response body"), blank=True, editable=False)
    retry_after = models.CharField(_("Retry-After"), max_length=100, blank=True, editable=False)
    peer = models.CharField(_("connected address"), max_length=64, blank=True, editable=False)
    timings = models.JSONField(
        _("timings"),
        default=dict,
        editable=False,
        help_text=_("Milliseconds from the start until a stage was over, where it is known."),
    )
    previous_signature = models.CharField(
        _("signature of the previous secret"), max_length=80, blank=True, editable=False
    )
    agent = models.CharField(_("sent by"), max_length=60, blank=True, editable=False)

    class Meta:
        verbose_name = _("delivery attempt")
        verbose_name_plural = _("delivery attempts")
        ordering = ("delivery", "number")
        constraints = (models.UniqueConstraint(fields=("delivery", "number"), name="webhooks_attempt_number"),)

    def __str__(self) -> str:
        return f"{self.id} ({self.result})"

    @property
    def request_header(self) -> str:
        """The request line and the header lines that were sent; "" where no request is known."""
        if self.timestamp is None:
            return ""
        try:
            endpoint = parse_endpoint(self.url, allow_http=True, allowed_networks=ANYWHERE)
        except InvalidEndpointError:  # refused, and so never sent
            return ""
        headers = (
            ("Host", endpoint.authority),
            ("Accept", "*/*"),
            ("Content-Type", "application/json"),
            (SIGNATURE_HEADER, self.signature),
            (TIMESTAMP_HEADER, str(self.timestamp)),
            (EVENT_HEADER, self.delivery.event_type),
            (PREVIOUS_SIGNATURE_HEADER, self.previous_signature),
            ("User-Agent", self.agent),
            ("Content-Length", str(len(self.request_body))),
        )
        lines = [f"{name}: {value}" for name, value in headers if value]
        return "\r\n".join([f"POST {endpoint.target} HTTP/1.1", *lines, ""])

    @property
    def request_body(self) -> bytes:
        """The bytes that were sent, and signed."""
        event = self.delivery.event
        return challenge_body(self.challenge) if event is None else event.body.encode()
