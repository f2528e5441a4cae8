"""Background generation of presentations."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from ..background import send
from .deck import Deck, make_deck
from .layout import paginate
from .models import Presentation, WorkEndedError
from .outline import OutlineError, parse_outline

logger = logging.getLogger("example_project")

LONG_WAIT = timedelta(seconds=20)
LONG_WORK = timedelta(minutes=5)


@shared_task(name="example_project.make_presentation")
def make_presentation(presentation_id: str) -> None:
    presentation = Presentation.objects.filter(pk=presentation_id).first()
    if presentation is None or not presentation.begin():
        return
    started = time.monotonic()
    try:
        deck = _make(presentation)
        presentation.complete(deck, seconds=time.monotonic() - started)
    except WorkEndedError:
        logger.info("%s was cancelled or given up.", presentation.id)
    except OutlineError as error:
        _give_up(presentation, str(error))
    except Exception:  # The owner is notified, and the log has the cause.
        _give_up(presentation, "An internal error, not caused by the outline. Please try again later.")
        raise


@shared_task(name="example_project.resume_presentations")
def resume_presentations() -> None:
    """Generate presentations whose task was lost, and give up those that a worker never finished."""
    now = timezone.now()
    for presentation in Presentation.objects.in_work_since(now - LONG_WORK):
        _give_up(presentation, "The work was interrupted. Please try again.")
    for presentation in Presentation.objects.waiting_since(now - LONG_WAIT):
        send(make_presentation, presentation)


def _give_up(presentation: Presentation, error: str) -> None:
    with suppress(WorkEndedError):  # It was cancelled or finished in the meantime.
        presentation.fail(error)


def _make(presentation: Presentation) -> Deck:
    title, outline = presentation.title, presentation.outline
    if presentation.is_edit:
        title, outline = presentation.edited_title, presentation.edited_outline
    return make_deck(
        title,
        paginate(title, parse_outline(outline)),
        subtitle=presentation.owner.get_full_name() or presentation.owner.get_username(),
        checkpoint=presentation.require_work,
    )
