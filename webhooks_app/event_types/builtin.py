"""The 13 event types of the presentation service.

The data of ``ppt.generation.completed`` and the field ``error`` of ``ppt.generation.failed`` follow the specification
exactly. The specification shows none of the others, whose few fields are chosen here.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .base import EventData, EventType

PptId = Annotated[str, Field(pattern=r"^ppt_[0-9A-Za-z_-]+$", description="The presentation.")]
UserId = Annotated[str, Field(pattern=r"^user_[0-9A-Za-z_-]+$", description="The account that owns it.")]
FileId = Annotated[str, Field(pattern=r"^file_[0-9A-Za-z_-]+$", description="The file.")]
Title = Annotated[str, Field(description="Title of the presentation.")]
Pages = Annotated[int, Field(ge=0, description="Number of pages.")]
DownloadUrl = Annotated[
    str,
    Field(
        pattern=r"^https?://\S+$",
        description="URL for downloading the presentation: {base_url}/v1/ppt/<ppt_id>/download.",
    ),
]
Error = Annotated[str, Field(description="Human-readable error message.")]
Filename = Annotated[str, Field(description="Name of the uploaded file.")]
Plan = Annotated[str, Field(description="Name of the plan.")]


class PptGenerationStarted(EventData):
    ppt_id: PptId
    user_id: UserId
    title: Title


class PptGenerationCompleted(EventData):
    ppt_id: PptId
    user_id: UserId
    title: Title
    pages: Pages
    download_url: DownloadUrl
    generation_time: float = Field(ge=0, description="Duration of the generation in seconds.")
    cost: int = Field(ge=0, description="Cost of the generation in whole credits.")


class PptGenerationFailed(EventData):
    error: Error
    ppt_id: PptId | None = None
    user_id: UserId | None = None


class PptGenerationCancelled(EventData):
    ppt_id: PptId
    user_id: UserId
    title: Title


class PptEditStarted(EventData):
    ppt_id: PptId
    user_id: UserId
    title: Title


class PptEditCompleted(EventData):
    ppt_id: PptId
    user_id: UserId
    title: Title
    pages: Pages
    download_url: DownloadUrl


class PptEditFailed(EventData):
    error: Error
    ppt_id: PptId
    user_id: UserId


class FileUploaded(EventData):
    file_id: FileId
    user_id: UserId
    filename: Filename
    content_type: str = Field(description="Media type, such as application/pdf.")
    size_bytes: int = Field(ge=0, description="Size of the file in bytes.")


class FileProcessed(EventData):
    file_id: FileId
    user_id: UserId
    filename: Filename
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, in lower-case hexadecimal.")
    pages: int | None = Field(default=None, ge=0, description="Number of pages, for files with pages.")


class FileDeleted(EventData):
    file_id: FileId
    user_id: UserId
    filename: Filename


class UserRegistered(EventData):
    user_id: UserId
    username: str = Field(description="Login name of the account.")


class UserSubscribed(EventData):
    user_id: UserId
    plan: Plan


class UserUnsubscribed(EventData):
    user_id: UserId
    plan: Plan


_PPT = {"ppt_id": "ppt_8f14e45f", "user_id": "user_1024"}
_FILE = {"file_id": "file_45c48cce", "user_id": "user_1024", "filename": "figures-2025.pdf"}
_SUBSCRIPTION = {"user_id": "user_1024", "plan": "pro"}
_TITLE = "Annual report 2025"
_DOWNLOAD_URL = "https://api.example.com/v1/ppt/ppt_8f14e45f/download"

PRESENTATION_EVENT_TYPES = (
    EventType(
        name="ppt.generation.started",
        group="PPT generation",
        description="Generation started",
        data_model=PptGenerationStarted,
        reference_fields=("ppt_id", "user_id"),
        example={**_PPT, "title": _TITLE},
    ),
    EventType(
        name="ppt.generation.completed",
        group="PPT generation",
        description="Generation completed",
        data_model=PptGenerationCompleted,
        reference_fields=("ppt_id", "user_id"),
        example={
            **_PPT,
            "title": _TITLE,
            "pages": 12,
            "download_url": _DOWNLOAD_URL,
            "generation_time": 14.82,
            "cost": 10,
        },
    ),
    EventType(
        name="ppt.generation.failed",
        group="PPT generation",
        description="Generation failed",
        data_model=PptGenerationFailed,
        reference_fields=("ppt_id", "user_id"),
        example={"error": "The outline has no headings to make pages from.", **_PPT},
    ),
    EventType(
        name="ppt.generation.cancelled",
        group="PPT generation",
        description="Generation cancelled",
        data_model=PptGenerationCancelled,
        reference_fields=("ppt_id", "user_id"),
        example={**_PPT, "title": _TITLE},
    ),
    EventType(
        name="ppt.edit.started",
        group="Edit",
        description="Editing started",
        data_model=PptEditStarted,
        reference_fields=("ppt_id", "user_id"),
        example={**_PPT, "title": _TITLE},
    ),
    EventType(
        name="ppt.edit.completed",
        group="Edit",
        description="Editing completed",
        data_model=PptEditCompleted,
        reference_fields=("ppt_id", "user_id"),
        example={**_PPT, "title": _TITLE, "pages": 14, "download_url": _DOWNLOAD_URL},
    ),
    EventType(
        name="ppt.edit.failed",
        group="Edit",
        description="Editing failed",
        data_model=PptEditFailed,
        reference_fields=("ppt_id", "user_id"),
        example={"error": "Page 20 does not exist; the presentation has 12 pages.", **_PPT},
    ),
    EventType(
        name="file.uploaded",
        group="File",
        description="Upload completed",
        data_model=FileUploaded,
        reference_fields=("file_id", "user_id"),
        example={**_FILE, "content_type": "application/pdf", "size_bytes": 482_133},
    ),
    EventType(
        name="file.processed",
        group="File",
        description="Processing completed",
        data_model=FileProcessed,
        reference_fields=("file_id", "user_id"),
        example={**_FILE, "sha256": "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9", "pages": 31},
    ),
    EventType(
        name="file.deleted",
        group="File",
        description="File deleted",
        data_model=FileDeleted,
        reference_fields=("file_id", "user_id"),
        example=_FILE,
    ),
    EventType(
        name="user.registered",
        group="User",
        description="User registered",
        data_model=UserRegistered,
        reference_fields=("user_id",),
        example={"user_id": "user_1024", "username": "amina"},
    ),
    EventType(
        name="user.subscribed",
        group="User",
        description="User subscribed",
        data_model=UserSubscribed,
        reference_fields=("user_id",),
        example=_SUBSCRIPTION,
    ),
    EventType(
        name="user.unsubscribed",
        group="User",
        description="User unsubscribed",
        data_model=UserUnsubscribed,
        reference_fields=("user_id",),
        example=_SUBSCRIPTION,
    ),
)
