"""The page of a delivery: its state and its attempts, refreshed until the result is final."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..models import Delivery
from ..pages.display import coloured, link_to_delivery, state_and_result
from ..pages.explanation import waiting_for, why_cancelled
from .actions import ActingAdmin
from .display import copyable, delivery_urls, shown_transcript
from .owned import ReadOnlyAdmin

MAX_REDELIVERIES = 10


class DeliveryPage(ReadOnlyAdmin, ActingAdmin):
    """Base of the admin of deliveries."""

    def get_urls(self) -> list[URLPattern]:
        live = self.admin_site.admin_view(self.live_view)
        return [path("<path:object_id>/live/", live, name="webhooks_app_delivery_live"), *super().get_urls()]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        delivery = kwargs["obj"]
        context |= {
            "subtitle": None,
            "crumb": self.crumb_of(delivery),
            "live_url": self.page_url(delivery, "live"),
            **self._result(request, delivery),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def crumb_of(self, item: Delivery) -> str:
        return item.event_type

    def live_view(self, request: HttpRequest, object_id: str) -> TemplateResponse:
        """Return the current state of a delivery with its attempts."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        delivery = self.get_object(request, unquote(object_id))
        if delivery is None:
            raise Http404
        return TemplateResponse(request, "admin/webhooks_app/delivery/result.html", self._result(request, delivery))

    def _result(self, request: HttpRequest, delivery: Delivery) -> dict[str, Any]:
        """Return the state with its reason, the attempts, and the later deliveries of the same event."""
        url = delivery_urls(self.admin_site.name)
        waits = waiting_for(delivery, url=url)
        reason = why_cancelled(delivery) or waits
        later = Delivery.objects.filter(redelivery_of=delivery.pk).order_by("-pk").values_list("pk", flat=True)
        state = coloured(delivery.state, state_and_result(delivery))
        return {
            "delivery": delivery,
            "standing": format_html("{}{}{}", state, ". " if reason else "", reason),
            "attempts": shown_transcript(request, delivery, site=self.admin_site.name),
            "waiting_for": waits,
            "redeliveries": [link_to_delivery(pk, url) for pk in later[:MAX_REDELIVERIES]],
        }

    @admin.display(description=_("ID"))
    def own_id(self, delivery: Delivery) -> SafeString:
        return copyable(delivery.pk, "own-id")
