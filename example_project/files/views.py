"""``/v1/files``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from webhooks_app.api.errors import BodyTooLarge

from ..api import ServiceViewSet, UploadParser
from ..background import work_soon
from .models import File
from .tasks import process_file


class FileSerializer(serializers.ModelSerializer[File]):
    created = serializers.DateTimeField(source="created_at", read_only=True)

    class Meta:
        model = File
        fields = ("id", "status", "filename", "content_type", "size_bytes", "sha256", "pages", "created")
        read_only_fields = fields


class UploadSerializer(serializers.Serializer[Any]):
    file = serializers.FileField(max_length=255, help_text="As multipart/form-data.")


class FileViewSet(ServiceViewSet):
    queryset = File.objects.all()
    serializer_class = FileSerializer
    parser_classes: Sequence[Any] = (UploadParser,)

    @transaction.atomic
    def create(self, request: Request) -> Response:
        """Store a file. A worker then counts its pages and computes its checksum."""
        serializer = UploadSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        upload = serializer.validated_data["file"]
        if upload.size > settings.MAX_UPLOAD_BYTES:
            raise BodyTooLarge(f"The file is too large. Send at most {settings.MAX_UPLOAD_BYTES:,} bytes.")
        file = File.objects.take(self.owner, upload)
        work_soon(process_file, file)
        headers = {"Location": f"/v1/files/{file.id}"}
        return Response(FileSerializer(file).data, status=status.HTTP_201_CREATED, headers=headers)

    def retrieve(self, request: Request, pk: str) -> Response:
        """Show a file."""
        return Response(FileSerializer(self.find(pk)).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete a file."""
        self.find(pk).discard()
        return Response(status=status.HTTP_204_NO_CONTENT)
