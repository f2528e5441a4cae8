"""An event, with the exact bytes that every subscriber receives, its idempotency key and its references.

The answers to other API requests with an ``Idempotency-Key`` are stored for a day.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from django.db import IntegrityError, models, router, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..encryption import decrypt_once, encrypt
from ..exceptions import WebhookStateError
from ..owners import hidden_types
from ..protocol.ids import first_id_at
from ..reasons import ReasonText
from ..tracing import TRACEPARENT_LENGTH
from .base import BaseModel, BaseQuerySet
from .fields import IdField, OwnerField, PartialIndex

MAX_KEY_LENGTH = 255
MAX_ORDERING_KEY_LENGTH = 100
MAX_REFERENCES = 8
MAX_REFERENCE_LENGTH = 100

CONTENT = ("type", "data", "references", "occurred_at", "ordering_key")
"""The arguments of ``emit`` that are the same whenever a key is used."""

DIGEST_LENGTH = 24

MAX_FOUND = 250
"""Number of events that a search by reference examines."""


class EventQuerySet(BaseQuerySet["Event"]):
    def owned_by(self, owner: Any) -> Self:
        """Return the events of an owner, except those of types that the owner policy hides from them."""
        return self.filter(owner=owner).exclude(hidden_events([owner]))

    def queued_before(self, moment: datetime) -> Self:
        return self.filter(pk__lt=first_id_at("evt", moment))

    def with_body(self) -> Self:
        return self.exclude(body="")


def hidden_events(owners: Iterable[Any]) -> models.Q:
    """Return the condition of the events that the policy hides from their owners; an empty one if there are none."""
    hidden: dict[tuple[str, ...], list[Any]] = {}
    for owner in owners:
        if names := hidden_types(owner):
            hidden.setdefault(tuple(names), []).append(owner.pk)
    each = (models.Q(owner__in=keys, type__in=names) for names, keys in hidden.items())
    return models.Q(*each, _connector=models.Q.OR)


class Event(BaseModel):
    id = IdField(prefix="evt")
    type = models.CharField(_("type"), max_length=100, editable=False)
    owner = OwnerField(
        verbose_name=_("account"),
        null=True,
        blank=True,
        editable=False,
        on_delete=models.DO_NOTHING,  # maintenance.forgetting deletes it before its owner
        related_name="webhook_events",
        db_index=False,
    )
    body = models.TextField(_("body"), editable=False)
    ordering_key = models.CharField(  # noqa: DJ001 - null costs nothing
        _("ordering key"), max_length=MAX_ORDERING_KEY_LENGTH, null=True, editable=False
    )
    is_test = models.BooleanField(_("test"), default=False, editable=False)
    created_at = models.DateTimeField(_("created"), editable=False)
    traceparent = models.CharField(  # noqa: DJ001 - null costs nothing
        max_length=TRACEPARENT_LENGTH, null=True, editable=False
    )

    objects = EventQuerySet.as_manager()  # type: ignore[misc]

    unsaved_references: Sequence[str] = ()
    """The references of a new event, inserted with it."""

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions = ("add", "view")  # emitting through the API is a right of its own
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("owner", "-id"), name="webhooks_event_owner"),
            models.Index(fields=("type", "-id"), name="webhooks_event_type"),
            # Lists the remaining bodies for retention, independent of the number of deleted ones.
            PartialIndex(
                fields=("type", "id"), only=~models.Q(body=""), otherwise=("created_at",), name="webhooks_event_body"
            ),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.type})"

    @property
    def has_body(self) -> bool:
        """Whether the sent body is still stored."""
        return bool(self.body)

    @property
    def data(self) -> dict[str, Any]:
        """The data of the event. Raise WebhookStateError after its retention."""
        self.require_body()
        data: dict[str, Any] = json.loads(self.body)["data"]
        return data

    def require_body(self) -> None:
        """Raise WebhookStateError if the body has been deleted."""
        if not self.has_body:
            raise WebhookStateError(ReasonText("body_not_kept", id=self.id))


class IdempotencyKey(BaseModel):
    """The event that an owner, or the platform, emitted with a key. Deleted with the event."""

    id = models.UUIDField(primary_key=True, editable=False)
    """The digest of the owner and the key. Its index compares both exactly on every database."""
    key = models.CharField(_("idempotency key"), max_length=MAX_KEY_LENGTH, editable=False)
    # No constraint: the key is inserted before the event, and MariaDB checks constraints immediately.
    event = models.OneToOneField(
        Event, on_delete=models.CASCADE, related_name="idempotency", db_constraint=False, editable=False
    )
    digest = models.CharField(max_length=DIGEST_LENGTH * len(CONTENT), editable=False)
    """The beginnings of the SHA-256 digests of each part of ``CONTENT``."""

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        default_permissions = ()

    def __str__(self) -> str:
        return self.key

    @classmethod
    def of(cls, event: Event, key: str, occurred_at: datetime | None) -> IdempotencyKey:
        """Return the unsaved key of an event; ``occurred_at`` is the given time, if any."""
        owner = "" if event.owner_id is None else str(event.owner_id)
        scope = hashlib.sha256(f"{owner}\0{key}".encode())
        moment = None if occurred_at is None else occurred_at.astimezone(UTC).isoformat()
        content = (event.type, event.data, sorted(event.unsaved_references), moment, event.ordering_key)
        digest = "".join(map(_digest, content))
        # Sets the version bits, because MariaDB does not find every UUID without them.
        pk = uuid.UUID(bytes=scope.digest()[:16], version=5)
        return cls(id=pk, key=key, event_id=event.pk, digest=digest)

    def differences(self, other: IdempotencyKey) -> list[str]:
        """Return the parts of ``CONTENT`` that differ between the events of two keys."""
        spans = (slice(place, place + DIGEST_LENGTH) for place in range(0, len(self.digest), DIGEST_LENGTH))
        return [part for part, span in zip(CONTENT, spans, strict=True) if self.digest[span] != other.digest[span]]


def _digest(value: object) -> str:
    content = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:DIGEST_LENGTH]


class EventReference(BaseModel):
    """A business identifier for finding an event."""

    pk = models.CompositePrimaryKey("value", "event_id")
    value = models.CharField(_("reference"), max_length=MAX_REFERENCE_LENGTH, editable=False)
    event = models.ForeignKey(
        Event, on_delete=models.CASCADE, related_name="references", db_constraint=False, editable=False
    )

    class Meta:
        verbose_name = _("reference")
        verbose_name_plural = _("references")
        default_permissions = ()

    def __str__(self) -> str:
        return self.value

    @classmethod
    def events(cls, value: str) -> models.QuerySet[EventReference, Any]:
        """Return the ids of the events with a reference, as a subquery."""
        return cls._default_manager.filter(value=value).values("event")

    @classmethod
    def newest_events(cls, value: str, owner_ids: Collection[Any] | None = None) -> list[str]:
        """Return the ids of the newest events with a reference, at most ``MAX_FOUND``, newest first.

        With ``owner_ids`` only these owners' events count, so that others with the same reference hide none of them.
        """
        events = cls.events(value)
        if owner_ids is not None:
            events = events.filter(event__owner__in=owner_ids)
        return list(events.order_by("-event").values_list("event", flat=True)[:MAX_FOUND])


KEPT = timedelta(hours=24)


class StoredAnswerQuerySet(BaseQuerySet["StoredAnswer"]):
    def expired(self, now: datetime) -> Self:
        return self.filter(created_at__lte=now - KEPT)


class StoredAnswer(BaseModel):
    """An answer, encrypted because it can contain a secret. It is saved in the transaction of its request."""

    id = models.UUIDField(primary_key=True, editable=False)
    """The digest of the caller, the route and the key. Its index compares them exactly on every database."""
    # No constraint, whose lock on the owner's row would lead to deadlocks with operations that lock the owner.
    owner = OwnerField(null=True, editable=False, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False)
    encrypted_content = models.TextField(editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False, db_index=True)

    objects = StoredAnswerQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("stored answer")
        verbose_name_plural = _("stored answers")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)

    @classmethod
    def of(cls, caller: str, route: str, key: str, owner_id: Any) -> StoredAnswer:
        """Return the unsaved row of a request; ``caller`` identifies the owner, or the service key."""
        scope = hashlib.sha256(f"{caller}\0{route}\0{key}".encode(errors="surrogatepass"))
        # Sets the version bits, because MariaDB does not find every UUID without them.
        return cls(id=uuid.UUID(bytes=scope.digest()[:16], version=5), owner_id=owner_id)

    @property
    def content(self) -> str:
        """The stored answer as text. Raise SecretUnreadableError if no key decrypts it."""
        return decrypt_once(self.encrypted_content)

    def claim(self) -> StoredAnswer | None:
        """Insert the row in the caller's transaction, or return the row of an earlier request.

        Waits for a transaction that has inserted the same row.
        """
        rows = StoredAnswer.objects.using(router.db_for_write(StoredAnswer))
        while True:
            try:
                with transaction.atomic(using=rows.db):
                    self.save(using=rows.db, force_insert=True)
            except IntegrityError:
                same = rows.filter(pk=self.pk)
                # The second query finds a row that is newer than the snapshot of a repeatable read.
                saved = same.first() or same.select_for_update().first()
            else:
                return None
            if saved is not None and saved.created_at > timezone.now() - KEPT:
                return saved
            same.filter(created_at__lte=timezone.now() - KEPT).delete()

    def keep(self, content: str) -> None:
        self.encrypted_content = encrypt(content)
        self.save(update_fields=["encrypted_content"])
