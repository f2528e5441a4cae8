"""Events in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Delivery, Event
from .display import link_to_search, pretty_json
from .filters import EventTypeFilter
from .owned import ReadOnlyAdmin


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    id_lookups = (("evt", "pk"),)
    search_help_text = _("An id (evt_…), or the name of an account.")
    list_display = ("id", "type", "owner", "created_at", "is_test")
    list_filter = (EventTypeFilter, "is_test", "created_at")
    list_select_related = ("owner",)
    fields = ("id", "type", "owner", "created_at", "is_test", "pretty_body", "deliveries_link")
    readonly_fields = fields

    @admin.display(description=_("body"))
    def pretty_body(self, event: Event) -> SafeString | str:
        return pretty_json(event.body) if event.has_body else gettext("No longer kept.")

    @admin.display(description=_("deliveries"))
    def deliveries_link(self, event: Event) -> SafeString:
        return link_to_search(Delivery, event.id, gettext("Deliveries of this event"), site=self.admin_site.name)
