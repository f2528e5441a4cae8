"""The service's own models in the console, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from .accounts.models import Subscription
from .files.models import File
from .presentations.models import Presentation

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


class ReadOnlyAdmin(_ModelAdmin):
    """Read-only, because only changes through the service emit events."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Presentation)
class PresentationAdmin(ReadOnlyAdmin):
    list_display = ("id", "title", "owner", "status", "pages", "cost", "created_at")
    list_filter = ("status",)
    list_select_related = ("owner",)
    search_fields = ("id", "title")


@admin.register(File)
class FileAdmin(ReadOnlyAdmin):
    list_display = ("id", "filename", "owner", "status", "size_bytes", "pages", "created_at")
    list_filter = ("status",)
    list_select_related = ("owner",)
    search_fields = ("id", "filename")


@admin.register(Subscription)
class SubscriptionAdmin(ReadOnlyAdmin):
    list_display = ("user", "plan", "created_at")
    list_filter = ("plan",)
    list_select_related = ("user",)
