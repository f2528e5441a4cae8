"""``/v1/ppt``"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.http import FileResponse
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from webhooks_app.api.errors import Conflict

from ..api import AnythingNegotiation, LongJsonParser, ServiceViewSet
from ..background import work_soon
from .models import Presentation, PresentationStateError
from .serializers import EditSerializer, OutlineSerializer, PresentationSerializer
from .tasks import make_presentation

PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"


class PresentationViewSet(ServiceViewSet):
    queryset = Presentation.objects.all()
    serializer_class = PresentationSerializer
    parser_classes = (LongJsonParser,)

    @transaction.atomic
    def create(self, request: Request) -> Response:
        """Create a presentation from a title and an outline in Markdown."""
        given = self._validated(OutlineSerializer(data=request.data))
        presentation = Presentation.objects.create(owner=self.owner, **given)
        work_soon(make_presentation, presentation)
        return self._accepted(presentation)

    def retrieve(self, request: Request, pk: str) -> Response:
        """Show a presentation with its status."""
        return Response(PresentationSerializer(self.find(pk)).data)

    @action(detail=True, content_negotiation_class=AnythingNegotiation)
    def download(self, request: Request, pk: str) -> FileResponse:
        """Return the PowerPoint file. During an edit, this is the previous version."""
        presentation: Presentation = self.find(pk)
        if not presentation.file:
            raise Conflict(f"There is nothing to download; the presentation is {presentation.state}.")
        return FileResponse(
            presentation.file.open("rb"),
            as_attachment=True,
            filename=f"{presentation.title.replace('/', '-')}.pptx",
            content_type=PPTX,
        )

    @action(detail=True, methods=["post"])
    def edit(self, request: Request, pk: str) -> Response:
        """Edit a completed presentation with a new title, a new outline or both."""
        given = self._validated(EditSerializer(data=request.data))
        presentation: Presentation = self.find(pk)
        edit = {"title": presentation.title, "outline": presentation.outline, **given}
        with transaction.atomic(), _conflicts():
            presentation.request_edit(**edit)
            work_soon(make_presentation, presentation)
        return self._accepted(presentation)

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        """Cancel an unfinished generation."""
        presentation: Presentation = self.find(pk)
        with _conflicts():
            presentation.cancel()
        return Response(PresentationSerializer(presentation).data)

    def _validated(self, serializer: BaseSerializer[Any]) -> dict[str, Any]:
        serializer.is_valid(raise_exception=True)
        validated: dict[str, Any] = serializer.validated_data
        return validated

    def _accepted(self, presentation: Presentation) -> Response:
        return Response(
            PresentationSerializer(presentation).data,
            status=status.HTTP_202_ACCEPTED,
            headers={"Location": f"/v1/ppt/{presentation.id}"},
        )


@contextmanager
def _conflicts() -> Iterator[None]:
    """Convert PresentationStateError to a response with status 409."""
    try:
        yield
    except PresentationStateError as error:
        raise Conflict(str(error)) from None
