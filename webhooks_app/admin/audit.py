"""Audit entries in the admin: read-only, limited to the user's own owners."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from ..models import AuditEntry
from ..pages.display import moment
from .export import ExportingAdmin, account_of
from .filters import CreatedFilter, OwnerFilter
from .history import MODELS, changes_of, stored_changes_of, with_names
from .owned import ReadOnlyAdmin

MAX_CHANGES_LENGTH = 120


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin, ExportingAdmin):
    id_lookups = (("aud", "pk"), *((prefix, "subject") for prefix in MODELS))
    search_help_text = _(
        "The ID of an entry (aud_…), webhook (wh_…), delivery (dlv_…), key (key_…) or replay (rpl_…), or an account "
        "name."
    )
    list_display = ("created", "action", "subject_link", "owner_name", "by_and_via", "changed")
    exported = {  # noqa: RUF012
        "created": {"created_at": "created_at"},
        "action": {"action": "action"},
        "subject_link": {"subject": "subject"},
        "owner_name": {"account": account_of},
        "by_and_via": {"by": "by", "via": "via"},
        "changed": {"changes": stored_changes_of},
    }
    list_filter = ("action", "via", CreatedFilter, OwnerFilter)
    list_select_related = ("owner",)
    fields = ("id", "created", "action", "subject_link", "owner_name", "by_and_via", "reason")
    change_form_template = "admin/webhooks_app/auditentry/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_names(request, super().get_queryset(request))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        context["changes"] = changes_of(kwargs["obj"])
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("time"))
    def created(self, entry: AuditEntry) -> SafeString:
        return moment(entry.created_at)

    @admin.display(description=_("subject"))
    def subject_link(self, entry: AuditEntry) -> SafeString | str:
        model = MODELS.get(entry.subject.partition("_")[0])
        if model is None or not self.admin_site.is_registered(model):
            return entry.subject
        name = f"admin:webhooks_app_{model._meta.model_name}_change"
        url = reverse(name, args=(entry.subject,), current_app=self.admin_site.name)
        return format_html('<a class="webhooks-id" href="{}">{}</a>', url, entry.subject)

    @admin.display(description=_("by"))
    def by_and_via(self, entry: Any) -> str:
        return ", ".join(filter(None, (entry.by, str(entry.get_via_display()))))

    @admin.display(description=_("changes"))
    def changed(self, entry: AuditEntry) -> SafeString:
        text = Truncator("; ".join(map(str, changes_of(entry)))).chars(MAX_CHANGES_LENGTH)
        return format_html('<span class="webhooks-text">{}</span>', text)
