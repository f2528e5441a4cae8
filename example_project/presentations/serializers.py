"""Presentations in the API."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from .models import Presentation

MAX_OUTLINE_LENGTH = 200_000


class PresentationSerializer(serializers.ModelSerializer[Presentation]):
    created = serializers.DateTimeField(source="created_at", read_only=True)
    generation_time = serializers.FloatField(source="generation_seconds", read_only=True)
    download_url = serializers.SerializerMethodField()

    class Meta:
        model = Presentation
        fields = ("id", "status", "title", "pages", "cost", "generation_time", "error", "download_url", "created")
        read_only_fields = fields

    def get_download_url(self, presentation: Presentation) -> str | None:
        return presentation.download_url if presentation.file else None


class OutlineSerializer(serializers.Serializer[Any]):
    """Input for a new presentation."""

    title = serializers.CharField(max_length=200)
    outline = serializers.CharField(max_length=MAX_OUTLINE_LENGTH, trim_whitespace=False, help_text="In Markdown.")


class EditSerializer(OutlineSerializer):
    """Changes to a presentation. Omitted fields stay unchanged."""

    default_error_messages: ClassVar[Any] = {"nothing": "Provide a new title, a new outline or both."}

    def get_fields(self) -> Any:
        fields = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            self.fail("nothing")
        return attrs
