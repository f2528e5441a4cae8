"""Webhooks in the admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, prefetch_related_objects
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import check_endpoint
from ..error_reports import hide_values
from ..exceptions import InvalidEndpointError, SecretUnreadableError
from ..models import Webhook
from ..models.fields import translated
from ..models.standing import Standing
from ..models.webhook_settings import WEBHOOK_SETTINGS, SettingsSection, WebhookSetting
from ..operations.registration import create_webhook, update_webhook
from ..operations.rights import REGISTER_WEBHOOK
from ..pages.display import MAX_URL, breakable, in_tone, state_of, state_of_key, until_verified
from ..pages.forms import TRY_FILTER
from ..pages.lists import WEBHOOKS
from ..reasons import code_of
from .display import column, shows_deliveries, time_column
from .event_types import EventTypePages
from .export import ExportingAdmin, shown_account_of
from .operations_page import OperationsPage
from .overview import shown_overview
from .owned import actor_of, manages_all, visible_event_types, without_names
from .owner_fields import OwnableAdmin
from .receivers import ReceiversPage
from .search import SearchPage
from .sidebar import EventTypes, Operations, PageAdmin, Receivers
from .webhook_health import HealthColumns, known_health
from .webhook_page import WebhookForm, WebhookSections

PAGES: Mapping[Any, type[PageAdmin]] = {
    Receivers: ReceiversPage,
    EventTypes: EventTypePages,
    Operations: OperationsPage,
}
"""The pages that are about no model."""

SHOWN_IF_SET = ("previous_secret_until", "public_keys", "next_slot_at")
SHOWN = ("secret_state", *SHOWN_IF_SET)
"""Read-only fields among the settings."""

SHOWN_WITH: Mapping[str, tuple[str, ...]] = {
    "owner": ("audience", "owner", "owner_name"),
    "rate_limit": ("rate_limit", "next_slot_at"),
    "secret": ("secret", "secret_state", "previous_secret_until"),
    "signatures": ("signatures", "removes_signatures", "public_keys"),
}
"""The fields of settings that the form shows with others."""

AFTER_SECRET = ("send_test", "rotate_secret")
"""Actions with a button on the page of a new secret."""

STATED = (Standing.PAUSED, Standing.UNVERIFIED, Standing.VERIFICATION_FAILED, Standing.DISABLED, Standing.HEALTHY)
"""States that the status says already, or that need no word."""


@admin.register(Webhook)
class WebhookAdmin(OwnableAdmin, HealthColumns, SearchPage, WebhookSections, ExportingAdmin):
    form = WebhookForm
    creating = REGISTER_WEBHOOK
    listed = WEBHOOKS
    list_display = ("target", "state", "owner_name", "course", "last_delivery", "failing")
    exported = {  # noqa: RUF012
        "target": {"url": "url", "description": "description", "pending_url": "pending_url"},
        "state": {
            "status": "status",
            "status_reason": "status_reason",
            "status_reason_code": lambda webhook: code_of(webhook.status_reason),
            "paused_at": "paused_at",
        },
        **HealthColumns.exported,
    }
    list_select_related = ("owner", "health")
    change_form_template = "admin/webhooks_app/webhook/change_form.html"

    def __init__(self, model: type[Webhook], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        for entry, page in PAGES.items():  # also on a second site of the host
            if not admin_site.is_registered(entry):
                admin_site.register(entry, page)

    def get_urls(self) -> list[URLPattern]:
        return [
            self.own_path("overview/", self.overview_view, "overview"),
            self.own_path("check-url/", self.check_url_view, "check_url"),
            self.own_path("<path:object_id>/live/<str:part>/", self.live_view, "live"),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(deleted_at=None)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        webhook = super().get_object(request, object_id, from_field)
        if webhook is not None:
            prefetch_related_objects([webhook], "signing_keys")
        return webhook

    # Form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return the fields that the user may see, in the order of the table."""
        fields = _fields_of(WEBHOOK_SETTINGS)
        if obj is None:
            asked = {"audience"} if manages_all(request) else set()
            asked |= set(self.owner_fields(request))
            hidden = {"audience", "owner", "owner_name", "removes_signatures", *SHOWN} - asked
        else:
            hidden = {"audience", "owner", "secret"} | self._hidden_settings(request, obj)
        return [name for name in without_names(request, fields) if name not in hidden]

    def _hidden_settings(self, request: HttpRequest, webhook: Webhook) -> set[str]:
        """Return the fields that have no value, or that are only for users who may change the webhook."""
        unset = {name for name in SHOWN_IF_SET if not getattr(webhook, name)}
        may_change = self.has_change_permission(request, webhook)
        return unset if may_change else {*unset, "event_types", "removes_signatures", "basic_auth", "basic_password"}

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # The owner is fixed: with the webhook, its log would move to another account.
        return () if obj is None else ("owner_name", *SHOWN)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the groups of settings, closed for an existing webhook. Django opens those with an error."""
        fields = self.get_fields(request, obj)
        opened = list(SettingsSection) if obj is None else [SettingsSection.WHAT] if TRY_FILTER in request.POST else []
        groups = [(each, [name for name in _fields_of(each.settings) if name in fields]) for each in SettingsSection]
        return [
            (each.label, {"fields": names, "classes": () if each in opened else ("collapse",)})
            for each, names in groups
            if names
        ]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.visible_types = visible_event_types(request)
        if self.has_try_filter_permission(request):
            form.event_url = staticmethod(partial(self.url, "event_change"))
        if "url" in form.base_fields:
            form.base_fields["url"].widget.attrs["data-check"] = self.url("webhook_check_url")
        return form

    owner_name = column(_("account"), shown_account_of)

    @admin.display(description=_("URL"))
    def target(self, webhook: Webhook) -> SafeString:
        url = Truncator(webhook.url).chars(MAX_URL)
        shown = format_html('<span class="webhooks-url" title="{}">{}</span>', webhook.pk, breakable(url))
        if until := until_verified(webhook):
            shown = format_html('{}<span class="webhooks-quiet">{}</span>', shown, until)
        if not webhook.description:
            return shown
        return format_html('{}<span class="webhooks-quiet">{}</span>', shown, webhook.description)

    @admin.display(description=_("status"))
    def state(self, webhook: Webhook) -> SafeString:
        standing, state = known_health(webhook).standing, state_of(webhook)
        if standing not in STATED:
            state = str(standing.label)
        return in_tone(standing.tone, state)

    @admin.display(description=_("secret"))
    def secret_state(self, webhook: Webhook) -> str:
        try:
            _ = webhook.secret
        except SecretUnreadableError as error:
            return translated(str(error))
        return gettext("Stored encrypted; rotate to get a new one.")

    @admin.display(description=_("public keys"))
    def public_keys(self, webhook: Webhook) -> SafeString:
        lines = [(key["scheme"], key["key"], state_of_key(key)) for key in webhook.public_keys]
        return format_html_join(SafeString("<br>"), "{}: <code>{}</code> ({})", lines)

    previous_secret_until = time_column("previous_secret_until", _("old secret expires"))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        if change:
            update_webhook(obj, actor=actor_of(request), **form.changes)
            self._describe_signatures(request, obj, form)
        else:
            create_webhook(obj, actor=actor_of(request), **form.header_arguments)

    def _describe_signatures(self, request: HttpRequest, webhook: Webhook, form: WebhookForm) -> None:
        """Show the public keys of added signatures. Warn if no signature was selected."""
        for level, text in form.messages_about_signatures(Webhook.objects.get(pk=webhook.pk)):
            self.message_user(request, text, level)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponseRedirect:
        return self.show_once(request, obj, obj.secret)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Lead to the progress of the verification after a change of the URL."""
        answer = super().response_change(request, obj)
        is_being_verified = obj.awaited_url and (obj.paused_at is None or obj.is_changing_url)
        return HttpResponseRedirect(self.verification_url(obj)) if is_being_verified else answer

    def context_of_secret(self, request: HttpRequest, item: Webhook) -> dict[str, Any]:
        context = {"next_actions": self.buttons(request, item, among=AFTER_SECRET)}
        if item.status != Webhook.Status.PENDING:
            return context
        return {
            **context,
            "live_url": self.page_url(item, "live", "handshake"),
            "live_heading": gettext("Verification of the URL"),
            **self.latest_handshake(request, item),
        }

    # Other views

    def overview_view(self, request: HttpRequest) -> TemplateResponse:
        """Return the current overview, the part of the app's index page that is refreshed."""
        if not shows_deliveries(request):
            raise PermissionDenied
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/webhooks_app/overview.html", shown_overview(request))

    def check_url_view(self, request: HttpRequest) -> HttpResponse:
        """Check a URL against the rules, without a DNS lookup or a request."""
        hide_values(request)
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        try:
            check_endpoint(request.POST.get("url", ""))
        except InvalidEndpointError as error:
            shown = format_html('<span class="webhooks-bad">{}</span>', translated(str(error)))
            if url := error.suggestion:
                button = ' <button type="button" class="button" data-url="{}">{}</button>'
                shown += format_html(button, url, gettext("Use %(url)s") % {"url": url})
            return HttpResponse(shown)
        allowed = gettext("This URL is allowed. It is verified after you save it.")
        return HttpResponse(format_html('<span class="webhooks-good">{}</span>', allowed))


def _fields_of(settings: Iterable[WebhookSetting]) -> list[str]:
    return [name for each in settings for name in SHOWN_WITH.get(each.name, each.inputs)]
