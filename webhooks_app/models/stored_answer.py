"""The answers to API requests with an ``Idempotency-Key``, stored for a day."""

from __future__ import annotations

import hashlib
import uuid
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import IntegrityError, models, router, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..encryption import decrypt_once, encrypt
from .base import BaseModel, BaseQuerySet
from .fields import OwnerField

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
        """The stored answer as text. Raises SecretUnreadableError if no key decrypts it."""
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
