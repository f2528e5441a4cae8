"""Webhook events of the service's signals. ``webhooks_app`` imports this module at startup."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models.signals import post_save

from webhooks_app import emit_on
from webhooks_app.event_types import EventData
from webhooks_app.event_types import builtin as data

from .accounts import signals as accounts
from .accounts.models import Subscription, public_id
from .files import signals as files
from .files.models import File
from .presentations import signals as presentations
from .presentations.models import Presentation

OwnedData = tuple[Any, EventData]
"""Owner and data of an event."""


def _made(presentation: Presentation) -> dict[str, Any]:
    return {"ppt_id": presentation.id, "user_id": public_id(presentation.owner), "title": presentation.title}


def _made_of(file: File) -> dict[str, Any]:
    return {"file_id": file.id, "user_id": public_id(file.owner), "filename": file.filename}


@emit_on(presentations.generation_started, "ppt.generation.started")
def generation_started(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptGenerationStarted(**_made(presentation))


@emit_on(presentations.generation_completed, "ppt.generation.completed")
def generation_completed(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptGenerationCompleted(
        **_made(presentation),
        pages=presentation.pages or 0,
        download_url=presentation.download_url,
        generation_time=presentation.generation_seconds or 0.0,
        cost=presentation.cost or 0,
    )


@emit_on(presentations.generation_failed, "ppt.generation.failed")
def generation_failed(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptGenerationFailed(
        error=presentation.error, ppt_id=presentation.id, user_id=public_id(presentation.owner)
    )


@emit_on(presentations.generation_cancelled, "ppt.generation.cancelled")
def generation_cancelled(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptGenerationCancelled(**_made(presentation))


@emit_on(presentations.edit_started, "ppt.edit.started")
def edit_started(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptEditStarted(**_made(presentation))


@emit_on(presentations.edit_completed, "ppt.edit.completed")
def edit_completed(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptEditCompleted(
        **_made(presentation), pages=presentation.pages or 0, download_url=presentation.download_url
    )


@emit_on(presentations.edit_failed, "ppt.edit.failed")
def edit_failed(sender: Any, *, presentation: Presentation, **kwargs: Any) -> OwnedData:
    return presentation.owner, data.PptEditFailed(
        error=presentation.error, ppt_id=presentation.id, user_id=public_id(presentation.owner)
    )


@emit_on(files.file_uploaded, "file.uploaded")
def file_uploaded(sender: Any, *, file: File, **kwargs: Any) -> OwnedData:
    return file.owner, data.FileUploaded(**_made_of(file), content_type=file.content_type, size_bytes=file.size_bytes)


@emit_on(files.file_processed, "file.processed")
def file_processed(sender: Any, *, file: File, **kwargs: Any) -> OwnedData:
    found = {"sha256": file.sha256} if file.pages is None else {"sha256": file.sha256, "pages": file.pages}
    return file.owner, data.FileProcessed(**_made_of(file), **found)


@emit_on(files.file_deleted, "file.deleted")
def file_deleted(sender: Any, *, file: File, **kwargs: Any) -> OwnedData:
    return file.owner, data.FileDeleted(**_made_of(file))


@emit_on(post_save, "user.registered", sender=get_user_model())
def user_registered(sender: Any, *, instance: Any, created: bool, **kwargs: Any) -> OwnedData | None:
    """A new account has no webhooks yet, so only webhooks of the platform receive this event."""
    if not created:
        return None
    return instance, data.UserRegistered(user_id=public_id(instance), username=instance.get_username())


@emit_on(accounts.user_subscribed, "user.subscribed")
def user_subscribed(sender: Any, *, subscription: Subscription, **kwargs: Any) -> OwnedData:
    user = subscription.user
    return user, data.UserSubscribed(user_id=public_id(user), plan=subscription.plan)


@emit_on(accounts.user_unsubscribed, "user.unsubscribed")
def user_unsubscribed(sender: Any, *, subscription: Subscription, **kwargs: Any) -> OwnedData:
    user = subscription.user
    return user, data.UserUnsubscribed(user_id=public_id(user), plan=subscription.plan)
