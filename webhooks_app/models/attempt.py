"""Attempts of deliveries: one HTTP request each."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..conf import MAX_AGENT_LENGTH, known_signatures
from ..exceptions import InvalidEndpointError
from ..protocol.handshake import challenge_body
from ..protocol.ids import attempt_id
from ..reasons import code_of
from ..signatures import Headers, Message, combine, unpack
from ..transport.endpoint import ANYWHERE, MAX_URL_LENGTH, parse_endpoint
from .delivery import Delivery
from .disclosure import TLS_FAILED, UNREACHABLE, Masked, MaskedQuerySet, unreachable_message
from .fields import CompactJSONField, ReasonField
from .own_headers import REDACTED
from .status import PROBES, DeliveryKind


class DeliveryAttemptQuerySet(MaskedQuerySet["DeliveryAttempt"]):
    masked_fields = frozenset(
        (
            *("result", "message", "duration_ms", "started_at", "timestamp", "peer", "timings", "is_masked"),
            *("response_headers", "response_body", "retry_after", "signatures"),
        )
    )


class DeliveryAttempt(Masked):
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

    pk = models.CompositePrimaryKey("delivery", "number")
    delivery = models.ForeignKey(
        Delivery,
        verbose_name=_("delivery"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="attempts",
        db_constraint=False,  # inserted while its delivery's row is locked; removed before it
        db_index=False,
    )
    # Numbers and times come first, without padding between them in PostgreSQL's rows.
    number = models.PositiveSmallIntegerField(_("number"), editable=False)
    response_status = models.PositiveSmallIntegerField(_("response status"), null=True, editable=False)
    duration_ms = models.PositiveIntegerField(_("duration (ms)"), null=True, editable=False)
    started_at = models.DateTimeField(_("started"), editable=False)
    timestamp = models.BigIntegerField(_("timestamp"), null=True, editable=False)
    is_masked = models.BooleanField(
        _("masked"),
        default=False,
        editable=False,
        help_text=_(
            "Whether the account only sees that the URL was not reached. Decided when the attempt is recorded."
        ),
    )
    result = models.CharField(_("result"), max_length=20, choices=Result.choices, editable=False)
    message = ReasonField(_("message"), max_length=500, blank=True, editable=False)
    url = models.CharField(_("URL"), max_length=MAX_URL_LENGTH, editable=False)
    signatures = models.TextField(
        _("signatures"), blank=True, editable=False, help_text=_("As packed by webhooks_app.signatures.")
    )
    challenge = models.CharField(_("challenge"), max_length=64, blank=True, editable=False)
    response_headers = CompactJSONField(_("response headers"), default=list, editable=False)
    response_body = models.TextField(_("response body"), blank=True, editable=False)
    retry_after = models.CharField(_("Retry-After"), max_length=100, blank=True, editable=False)
    peer = models.CharField(_("connected address"), max_length=64, blank=True, editable=False)
    timings = CompactJSONField(
        _("timings"),
        default=dict,
        editable=False,
        help_text=_("Milliseconds from the start to the end of each measured stage."),
    )
    header_names = models.TextField(
        _("names of the webhook's own headers"), blank=True, editable=False, help_text=_("Separated by commas.")
    )
    agent = models.CharField(_("sent by"), max_length=MAX_AGENT_LENGTH, blank=True, editable=False)

    objects = DeliveryAttemptQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("delivery attempt")
        verbose_name_plural = _("delivery attempts")
        default_permissions = ()
        ordering = ("delivery", "number")

    def __str__(self) -> str:
        return f"{self.id} ({self.get_result_display()})"

    @property
    def id(self) -> str:
        """The public identifier, derived from the delivery's and the number."""
        return attempt_id(self.delivery_id, self.number)

    def show_to_owner(self) -> None:
        super().show_to_owner()
        is_test_of_own = self.delivery.kind == DeliveryKind.TEST and self._went_to_verified_url
        self.hides_answer = self.delivery.kind in PROBES and not is_test_of_own
        if self.is_masked:
            self.result, self.message, self.duration_ms = UNREACHABLE, unreachable_message(self.message), None
            self.peer, self.timings, self.timestamp = "", {}, None
            if self.number > 1:  # a retry starts at a fixed time after the previous attempt
                self.started_at = None  # type: ignore[assignment]
        if self.is_masked or self.hides_answer:
            self.response_headers, self.response_body, self.retry_after = [], "", ""
        if self.hides_answer and self.result == self.Result.TLS_ERROR:
            self.message = TLS_FAILED

    hides_answer = False
    """Whether only the status of an answer is shown: an account chooses to which URL a probe is sent."""

    @property
    def _went_to_verified_url(self) -> bool:
        """Whether the URL had passed its verification, and has been that of the active webhook since."""
        webhook = self.delivery.webhook
        is_verified = webhook.status == webhook.Status.ACTIVE and webhook.url == self.url
        started_at: datetime | None = self.started_at  # None if only other columns are read
        return is_verified and started_at is not None and started_at >= webhook.status_changed_at

    @property
    def message_code(self) -> str:
        """The code of the message: "" without one, ``text`` if the host's transport wrote it."""
        return code_of(self.message)

    @property
    def request_header(self) -> str:
        """The sent request line and header lines, or "" if no request was sent."""
        if self.timestamp is None:
            return ""
        try:
            endpoint = parse_endpoint(self.url, allow_http=True, allowed_networks=ANYWHERE)
        except InvalidEndpointError:  # never sent
            return ""
        headers = (
            ("Host", endpoint.authority),
            ("Accept", "*/*"),
            ("Content-Type", "application/json"),
            *self._signature_headers(),
            *((name, REDACTED) for name in self.header_names.split(",") if name),
            ("User-Agent", self.agent),
            ("Content-Length", str(len(self.request_body))),
        )
        lines = [f"{name}: {value}" for name, value in headers if value]
        return "\r\n".join([f"POST {endpoint.target} HTTP/1.1", *lines, ""])

    def _signature_headers(self) -> Headers:
        """Return the headers of the stored signatures."""
        message = Message(self.delivery.event_id or self.delivery_id, self.delivery.event_type, self.timestamp or 0)
        known = known_signatures()
        return combine(
            known[name].headers(message, signature) if name in known else ((name, signature),)
            for name, signature in unpack(self.signatures).items()
        )

    @property
    def request_body(self) -> bytes:
        """The sent and signed bytes."""
        event = self.delivery.event
        return challenge_body(self.challenge) if event is None else event.body.encode()
