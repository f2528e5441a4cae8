"""Deliveries of events to webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from django.conf import settings as django_settings
from django.db import connections, models, transaction
from django.utils.translation import gettext_lazy as _

from ..conf import policy_of_delivery, retry_policy
from ..database.clock import now
from ..database.sql import UtcNow
from ..event_types import VERIFICATION
from ..exceptions import WebhookStateError
from ..protocol.json_data import format_time
from ..reasons import ReasonText
from ..retry import MAX_PACKED_LENGTH, BaseRetryPolicy, pack_policy
from ..signals import announce_deliveries
from .audit import Action, AuditEntry
from .base import atomic
from .disclosure import UNREACHABLE, Masked, MaskedQuerySet
from .event import Event
from .fields import CurrentForeignKey, IdField, LooseCharField, PartialIndex
from .keyset import HORIZON, WHOLE, Parts
from .queue_entry import ENTRIES_AT_A_TIME, MANY_ENTRIES, QueueEntry, QueueEntryQuerySet
from .rollup import Tally
from .status import DeliveryKind, stop_reason
from .webhook import Webhook

if TYPE_CHECKING:
    from .attempt import DeliveryAttempt

RECOVERABLE = ("webhook_disabled", "webhook_failed")
"""Reasons of cancellation that a new verification ends. By default, replays include the cancelled events."""


MISMATCHED = "filtered"
"""Reason of cancellation if the filter, evaluated after the emission, does not match."""


NO_FIELDS: Mapping[str, Any] = MappingProxyType({})


def default_max_attempts() -> int:
    return retry_policy().max_attempts


def default_policy() -> str:
    return pack_policy(retry_policy())


class DeliveryQuerySet(MaskedQuerySet["Delivery"]):
    masked_fields = frozenset(("last_result", "finished_at", "is_masked", "attempts"))
    owner_path = "webhook__owner"

    def pending(self) -> Self:
        return self.filter(state=Delivery.State.PENDING)

    def waiting(self) -> Self:
        """Return the pending deliveries without a claim."""
        return self.pending().filter(queue_entry__claimed_at=None)

    def final(self) -> Self:
        return self.exclude(state=Delivery.State.PENDING)

    def is_listed(self, state: str, parts: Parts = WHOLE) -> bool:
        """Return True if the queue, or an index, has just the deliveries in this state, by identifier.

        The queue as a whole is ordered by identifier. The entries of a webhook, as a part, have to be sorted: there
        must be few. A webhook with many has pending deliveries among its newest. An event's deliveries have no index
        by state.
        """
        if parts.field == "event":
            return False
        if state == Delivery.State.PENDING:
            return parts.field != "webhook" or not QueueEntry.objects.using(self.db).has_many(parts.ids)
        return state in Delivery.LISTED_STATES and connections[self.db].features.supports_partial_indexes

    def horizon_of(self, state: str) -> int:
        """Return how many deliveries in this state a page examines; of the queue few, because more rows are read."""
        return MANY_ENTRIES if state == Delivery.State.PENDING else HORIZON

    def in_state(self, state: str) -> Self:
        """Return the deliveries in this state, from the queue or an index if possible."""
        if state == Delivery.State.PENDING:
            # The condition also leads from the webhooks of a list to their entries.
            return self.filter(state=state, queue_entry__webhook=models.F("webhook"))
        if state == Delivery.COMPLETED:
            return self.filter(state__in=(Delivery.State.SUCCEEDED, Delivery.State.GIVEN_UP))
        return self.filter(failure=state) if self.is_listed(state) else self.filter(state=state)

    def with_related(self) -> Self:
        """Return the deliveries with the rows that pages and answers read beside them, without the events' bodies."""
        return self.select_related("event", "webhook__lane", "queue_entry").defer("event__body")

    def handshakes(self) -> Self:
        """Return the verifications. They have no event; databases without an index of handshakes find them by it."""
        return self.filter(kind=DeliveryKind.VERIFICATION, event=None)

    def of_type(self, name: str) -> Self:
        """Return the deliveries of events of this type, or the verifications."""
        return self.handshakes() if name == VERIFICATION.name else self.filter(event__type=name)

    def with_result(self, result: str) -> Self:
        """Return the deliveries whose last attempt has this result, as it is shown."""
        if not self.is_for_owner:
            return self.filter(last_result=result)
        if result == UNREACHABLE:
            return self.filter(models.Q(is_masked=True))
        return self.filter(models.Q(last_result=result, is_masked=False))

    def finished_within(self, since: datetime | None, until: datetime | None) -> Self:
        """Return the deliveries that succeeded, or were given up or cancelled, in a period.

        The owner may not know when the deliveries to an unreachable URL were.
        """
        found = models.Q(is_masked=False) if self.is_for_owner else models.Q()
        if since is not None:
            found &= models.Q(finished_at__gte=since)
        if until is not None:
            found &= models.Q(finished_at__lt=until)
        return self.filter(found)

    def queue(self, **fields: Any) -> Delivery:
        """Create a delivery that is due now by the database's clock, so that a wrong local clock cannot delay it."""
        retries = fields["webhook"].retries_of(fields.get("kind", Delivery.Kind.EVENT))
        delivery = Delivery(**{**retries, **fields})
        self.queue_all([delivery])
        return delivery

    def queue_all(self, deliveries: Sequence[Delivery], due_at: datetime | None = None) -> None:
        """Insert new deliveries with their queue entries, which are due as by ``QueueEntryQuerySet.add``."""
        with transaction.atomic(using=self.db, savepoint=False):
            self.bulk_create(deliveries)
            QueueEntry.objects.using(self.db).add(deliveries, due_at)

    def cancel(self, reason: str, *, among: QueueEntryQuerySet | None = None) -> int:
        """Cancel the pending deliveries, and return their number. Claims of them can no longer record a result.

        ``among`` limits the queue entries to read, by default all. Entries are locked first, as in recording, to
        prevent deadlocks.
        """
        pending = self.pending().order_by()
        entries = QueueEntry.objects.using(self.db).all() if among is None else among
        with transaction.atomic(using=self.db, savepoint=False):
            chosen = models.Exists(pending.filter(pk=models.OuterRef("pk")))  # SQLite would read all for each IN
            removed = entries.filter(chosen).removing()
            return sum(_end_cancelled(pending, ids, reason) for ids in removed)

    def cancel_stopped(self, webhook: Webhook, *, limit: int = ENTRIES_AT_A_TIME) -> int:
        """Cancel the first unclaimed deliveries that the state of a locked webhook stops, and return their number.

        If it is ``limit``, more remain. The cost does not depend on the webhook's backlog.
        """
        entries, reason = QueueEntry.objects.using(self.db).unclaimed(), stop_reason(DeliveryKind.EVENT, webhook)
        if not stop_reason(DeliveryKind.TEST, webhook):
            entries = entries.exclude(kind=DeliveryKind.TEST)
        with transaction.atomic(using=self.db, savepoint=False):
            ids = entries.remove_first(webhook.pk, limit)
            _end_cancelled(self.pending().order_by(), ids, reason)
        return len(ids)


def _end_cancelled(pending: DeliveryQuerySet, ids: Sequence[str], reason: str) -> int:
    """Mark the deliveries without a queue entry as cancelled, and return their number.

    Recording deletes an entry and changes the state together, so that they were not recorded.
    """
    changes = {"state": Delivery.State.CANCELLED, "state_reason": reason, "finished_at": UtcNow()}
    entries = QueueEntry.objects.using(pending.db).filter(pk__in=ids).order_by()
    kept = set(entries.values_list("pk", flat=True))  # a join would read the whole queue on PostgreSQL
    number = pending.filter(pk__in=[pk for pk in ids if pk not in kept]).update(**changes)
    if reason in RECOVERABLE:
        cancelled = Delivery.objects.using(pending.db).filter(pk__in=ids, failure=Delivery.State.CANCELLED)
        events = cancelled.filter(kind=Delivery.Kind.EVENT).order_by()
        Tally.objects.using(pending.db).note_cancelled(events.values_list("webhook_id", "event_id"))
    return number


class Delivery(Masked):
    Kind: TypeAlias = DeliveryKind

    class State(models.TextChoices):
        PENDING = "pending", _("pending")
        SUCCEEDED = "succeeded", _("succeeded")
        GIVEN_UP = "given_up", _("given up")
        CANCELLED = "cancelled", _("cancelled")

    class Purpose(models.TextChoices):
        """The reason for a delivery that nobody requested."""

        RECOVERY_ATTEMPT = "recovery", _("recovery attempt")

    id = IdField(prefix="dlv")
    event = models.ForeignKey(
        Event,
        verbose_name=_("event"),
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_constraint=False,  # inserted for an existing event, deleted with it
        db_index=False,
        help_text=_("Empty for a verification, which is not an event."),
    )
    # No constraint in the database. Its check would lock the webhook's row, under which workers claim, in every
    # emitting transaction. Deliveries are inserted only for existing webhooks, which outlive their deliveries.
    webhook = models.ForeignKey(
        Webhook,
        verbose_name=_("webhook"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="deliveries",
        db_constraint=False,
        db_index=False,
    )
    created_at = models.DateTimeField(_("created"), default=now, editable=False)
    expires_at = models.DateTimeField(
        _("expires"), null=True, editable=False, help_text=_("No attempt starts or continues after this time.")
    )
    kind = models.CharField(_("kind"), max_length=12, choices=Kind.choices, default=Kind.EVENT, editable=False)
    max_attempts = models.PositiveSmallIntegerField(_("maximum attempts"), default=default_max_attempts, editable=False)
    retry_policy = LooseCharField(
        _("retry policy"),
        max_length=MAX_PACKED_LENGTH,
        blank=True,
        default=default_policy,
        editable=False,
        help_text=_("Fixed when the delivery is queued, as packed by webhooks_app.retry."),
    )
    state_reason = models.CharField(_("reason"), max_length=100, blank=True, editable=False)
    # Results change only the following columns. They are adjacent, because PostgreSQL logs the bytes between the first
    # and the last changed one.
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.PENDING, editable=False)
    last_result = models.CharField(_("last result"), max_length=20, blank=True, editable=False)
    attempt_count = models.PositiveSmallIntegerField(_("attempts"), default=0, editable=False)
    is_masked = models.BooleanField(
        _("masked"), default=False, editable=False, help_text=_("Whether the last attempt is masked for the account.")
    )
    finished_at = models.DateTimeField(_("finished"), null=True, editable=False)
    failure = models.GeneratedField(
        expression=models.Case(models.When(state__in=("given_up", "cancelled"), then=models.F("state"))),
        output_field=models.CharField(max_length=10, null=True),
        db_persist=True,
        editable=False,
    )
    """The state, for states in which few deliveries end. Indexes cover it instead of the state, which every delivery
    changes. Therefore the last update of a successful delivery changes no index."""
    redelivery_of = models.ForeignKey(
        "self",
        verbose_name=_("redelivery of"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_constraint=False,  # inserted while its event's row is locked; pruned with it, or set to NULL
        db_index=False,
    )
    requested_by = CurrentForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("requested by"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_constraint=False,  # its check would lock the user's row after the queue's
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

    purpose = LooseCharField(  # null costs nothing
        _("purpose"), max_length=10, null=True, choices=Purpose.choices, editable=False
    )

    objects = DeliveryQuerySet.as_manager()  # type: ignore[misc]

    LISTED_STATES = (State.GIVEN_UP, State.CANCELLED)
    COMPLETED = "completed"
    """The states of deliveries that the receiver's answers have decided, which the charts count."""
    """The states in which few deliveries end. Partial indexes cover them."""

    class Meta:
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        default_permissions = ("view",)
        ordering = ("-id",)
        indexes = (
            PartialIndex(
                fields=("redelivery_of",),
                only=models.Q(redelivery_of__isnull=False),
                name="webhooks_delivery_again",
            ),
            PartialIndex(
                fields=("requested_by",),
                only=models.Q(requested_by__isnull=False),
                name="webhooks_delivery_requested",
            ),
            PartialIndex(
                fields=("replay", "-id"), only=models.Q(replay__isnull=False), name="webhooks_delivery_replay"
            ),
            # For lists of failures and of a webhook's handshakes: rare rows, without a cost for the others.
            PartialIndex(
                fields=("failure", "-id"),
                only=models.Q(failure__isnull=False),
                otherwise=None,
                name="webhooks_delivery_failed",
            ),
            PartialIndex(
                fields=("webhook", "failure", "-id"),
                only=models.Q(failure__isnull=False),
                otherwise=None,
                name="webhooks_delivery_failed_of",
            ),
            PartialIndex(
                fields=("webhook", "-id"),
                only=models.Q(kind="verification"),
                otherwise=None,
                name="webhooks_delivery_handshake",
            ),
            models.Index(fields=("event", "-id"), name="webhooks_delivery_event"),
            models.Index(fields=("webhook", "-id"), name="webhooks_delivery_webhook"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.get_state_display()})"

    def show_to_owner(self) -> None:
        super().show_to_owner()
        if self.is_masked:
            self.last_result, self.finished_at = UNREACHABLE, None

    @property
    def hides_times(self) -> bool:
        """Whether the times of the last and the next attempt are hidden, because they would reveal a duration."""
        return self.is_for_owner and self.is_masked

    def shown_attempts(self) -> list[DeliveryAttempt]:
        """Return the attempts in order, as the reader of this instance may see them."""
        attempts = list(self.attempts.order_by("number"))
        for attempt in attempts if self.is_for_owner else ():
            attempt.show_to_owner()
        return attempts

    @property
    def entry(self) -> QueueEntry | None:
        """The delivery's row in the queue, or None if it is final or hidden."""
        is_shown = self.state == self.State.PENDING and not self.hides_times
        return getattr(self, "queue_entry", None) if is_shown else None

    @property
    def due_at(self) -> datetime | None:
        """Time of the next attempt, or None during an attempt and after the last."""
        entry = self.entry
        return entry.due_at if entry is not None and entry.claimed_at is None else None

    @property
    def claimed_at(self) -> datetime | None:
        """Time of the current attempt's claim, or None without one."""
        return self.entry.claimed_at if self.entry is not None else None

    @property
    def leased_until(self) -> datetime | None:
        """Time at which the current attempt's claim expires, or None without one."""
        return self.entry.leased_until if self.entry is not None else None

    @property
    def policy(self) -> BaseRetryPolicy:
        return policy_of_delivery(self.retry_policy)

    @property
    def event_type(self) -> str:
        return self.event.type if self.event else VERIFICATION.name

    @property
    def owner_id(self) -> Any:
        return self.webhook.owner_id

    def lock(self) -> None:
        """Lock the webhook and the queue entry until the end of a transaction of ``writing()``, and reload all three.

        The webhook is locked first, as everywhere, and the entry before the delivery is read, as in recording. Raise
        WebhookStateError if the delivery is no longer kept.
        """
        self.webhook.lock()
        entry = QueueEntry.objects.using(self.alias).select_for_update().filter(pk=self.pk).first()
        saved = Delivery.objects.using(self.alias).filter(pk=self.pk).first()
        if saved is None:
            raise WebhookStateError(ReasonText("delivery_not_kept", id=self.pk))
        self.adopt(saved)
        self._state.fields_cache["queue_entry"] = entry
        if self.is_for_owner:
            self.show_to_owner()

    def require_redeliverable(self) -> None:
        """Raise WebhookStateError for a handshake, a pending delivery, or if the webhook's state allows no other."""
        if self.event_id is None:
            raise WebhookStateError(ReasonText("verification_not_redelivered"))
        if self.state == self.State.PENDING:
            raise WebhookStateError(ReasonText("delivery_pending", id=self.pk))
        if self.kind == self.Kind.TEST:
            self.webhook.require_testable()
        else:
            self.webhook.require_sendable()

    @atomic
    def redeliver(self, requested_by: Any = None, fields: Mapping[str, Any] = NO_FIELDS) -> Delivery:
        """Create another delivery of the same event, linked to the first one. The caller has locked this one.

        ``fields`` are values of the new delivery that differ from those of other redeliveries.

        Raise WebhookStateError for a pending delivery, whose event the receiver would get from both, for a stopped
        webhook, and for an event without a stored body. A delivery to a paused webhook is held. A test to a paused
        webhook is refused, because its sender expects a result.
        """
        self.require_redeliverable()
        using = self.alias
        # Pruning locks an event before deleting it or its body.
        event = Event.objects.using(using).select_for_update().filter(pk=self.event_id).first()
        if event is None:
            raise WebhookStateError(ReasonText("event_not_kept", id=self.event_id))
        event.require_body()
        delivery = Delivery.objects.using(using).queue(
            event=event,
            webhook=self.webhook,
            kind=self.kind,
            redelivery_of_id=self.redelivery_of_id or self.pk,
            requested_by=requested_by,
            **fields,
        )
        AuditEntry.objects.write(
            Action.DELIVERY_REDELIVERED,
            self,
            owner_id=self.webhook.owner_id,
            changes={"redelivery": [None, delivery.pk]},
        )
        announce_deliveries(delivery.alias)
        return delivery

    @atomic
    def hasten(self) -> None:
        """Make the next attempt due now. The caller has locked the delivery, which waits for its time only.

        The attempt belongs to the same series, and so do the retries after it.
        """
        entry = self.queue_entry
        before = entry.due_at
        QueueEntry.objects.using(self.alias).filter(pk=self.pk).update(due_at=UtcNow())
        entry.refresh_from_db(fields=["due_at"])
        changes = {"due_at": [at and format_time(at) for at in (before, entry.due_at)]}
        AuditEntry.objects.write(Action.DELIVERY_RETRIED, self, owner_id=self.owner_id, changes=changes)
        announce_deliveries(self.alias, [self.webhook_id])
