"""Files and their states."""

from __future__ import annotations

import logging
import mimetypes
from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import models, transaction
from django.dispatch import Signal
from django.utils import timezone

from webhooks_app.protocol.ids import new_id

from . import signals
from .inspection import Inspection

logger = logging.getLogger("example_project")

MAX_FILENAME = 255


def new_file_id() -> str:
    return new_id("file")


class FileQuerySet(models.QuerySet["File"]):
    def owned_by(self, owner: Any) -> Self:
        return self.filter(owner=owner)

    def waiting_since(self, moment: datetime) -> Self:
        return self.filter(status=File.Status.UPLOADED, created_at__lte=moment)

    @transaction.atomic
    def take(self, owner: Any, upload: UploadedFile[Any]) -> File:
        """Store an uploaded file."""
        filename = (upload.name or "unnamed")[-MAX_FILENAME:]
        file = File(
            owner=owner,
            filename=filename,
            content_type=mimetypes.guess_type(filename)[0] or "application/octet-stream",
            size_bytes=upload.size or 0,
        )
        file.content.save(file.id, upload, save=False)
        file.save(force_insert=True)
        file.announce(signals.file_uploaded, "uploaded")
        return file


class File(models.Model):
    class Status(models.TextChoices):
        UPLOADED = "uploaded"
        PROCESSED = "processed"

    id = models.CharField(primary_key=True, max_length=40, default=new_file_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="files")
    filename = models.CharField(max_length=255)
    content_type = models.CharField(max_length=100)
    size_bytes = models.PositiveBigIntegerField()
    content = models.FileField(upload_to="files")
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.UPLOADED)
    sha256 = models.CharField(max_length=64, blank=True)
    pages = models.PositiveIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = FileQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.id} ({self.filename})"

    @transaction.atomic
    def finish(self, inspection: Inspection) -> bool:
        """Record the result of the inspection. Return False if the file was deleted or already processed."""
        found = {"status": self.Status.PROCESSED, "sha256": inspection.sha256, "pages": inspection.pages}
        if not File.objects.filter(pk=self.pk, status=self.Status.UPLOADED).update(**found):
            return False
        for name, value in found.items():
            setattr(self, name, value)
        self.announce(signals.file_processed, "processed")
        return True

    @transaction.atomic
    def discard(self) -> bool:
        """Delete the file and its content. Return False if it was already deleted."""
        if not File.objects.filter(pk=self.pk).delete()[0]:
            return False
        self.announce(signals.file_deleted, "deleted")
        transaction.on_commit(self._delete_content, robust=True)
        return True

    def _delete_content(self) -> None:
        self.content.storage.delete(str(self.content.name))

    def announce(self, signal: Signal, change: str) -> None:
        """Log a change and send its signal."""
        logger.info("%s is %s.", self.id, change)
        signal.send(File, file=self)
