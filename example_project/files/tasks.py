"""Background inspection of files."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from ..background import send
from .inspection import inspect
from .models import File

logger = logging.getLogger("example_project")

LONG_WAIT = timedelta(seconds=20)


@shared_task(name="example_project.process_file")
def process_file(file_id: str) -> None:
    file = File.objects.filter(pk=file_id, status=File.Status.UPLOADED).first()
    if file is None:
        return
    try:
        with file.content.open("rb") as content:
            inspection = inspect(content, file.filename)
    except FileNotFoundError:
        logger.info("%s was deleted before it could be processed.", file.id)
    else:
        file.finish(inspection)


@shared_task(name="example_project.resume_files")
def resume_files() -> None:
    """Process files whose task was lost."""
    for file in File.objects.waiting_since(timezone.now() - LONG_WAIT):
        send(process_file, file)
