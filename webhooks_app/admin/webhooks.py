"""Webhooks in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..emission import send_test_event
from ..encryption import decrypt
from ..exceptions import SecretUnreadableError, WebhookStateError
from ..models import Delivery, Webhook
from ..rate_limits import limit_test, limit_verification
from ..registration import enable_webhook, save_webhook
from ..verification import start_verification
from .actions import ActingAdmin
from .display import link_to_search
from .owned import manages_all
from .webhook_form import EventTypeForm, OverlapForm, WebhookForm

SHOWN = (
    "status",
    "status_reason",
    "status_changed_at",
    "secret_state",
    "previous_secret_until",
    "next_slot_at",
    "created_at",
    "deliveries_link",
)
"""What the page of a webhook tells beside what can be changed."""


@admin.register(Webhook)
class WebhookAdmin(ActingAdmin):
    form = WebhookForm
    id_lookups = (("wh", "pk"),)
    search_help_text = _("An id (wh_…), a part of a URL, or the name of an account.")
    list_display = ("id", "url", "owner", "status", "status_changed_at", "description")
    list_filter = ("status", "created_at")
    list_select_related = ("owner",)
    raw_id_fields = ("owner",)
    actions = ("verify", "send_test", "disable", "enable", "rotate_secret", "revoke_previous_secret", "delete_selected")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(deleted_at=None)

    def matches_text(self, term: str) -> Q:
        return Q(url__icontains=term) | super().matches_text(term)

    # The form

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = ["owner"] if manages_all(request) else []
        fields += ["url", "event_types", "description", "retry_notices", "max_in_flight", "rate_limit"]
        if obj is None:
            return [*fields, "secret"]
        return [*fields, *SHOWN]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # The owner stays: with a webhook its log would move to another account.
        return () if obj is None else ("owner", *SHOWN)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.new_owner = request.user
        form.is_operators = manages_all(request)
        return form

    @admin.display(description=_("deliveries"))
    def deliveries_link(self, webhook: Webhook) -> SafeString:
        return link_to_search(Delivery, webhook.id, gettext("Deliveries of this webhook"), site=self.admin_site.name)

    @admin.display(description=_("secret"))
    def secret_state(self, webhook: Webhook) -> str:
        try:
            decrypt(webhook.encrypted_secret)
        except SecretUnreadableError as error:
            return str(error)
        return gettext("Encrypted, and shown to nobody.")

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        save_webhook(obj)

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> TemplateResponse:
        return self._show_secret(request, obj)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        obj.soft_delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for webhook in queryset:
            webhook.soft_delete()

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Name the webhooks alone: what belongs to their history stays."""
        names = [str(webhook) for webhook in objs]
        return names, {str(self.opts.verbose_name_plural): len(names)}, set(), []

    # The actions

    def has_verify_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.verify_webhook")

    def has_test_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.test_webhook")

    def has_rotate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.rotate_webhook_secret")

    @admin.action(description=_("Verify"), permissions=["verify"])
    def verify(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Verify these webhooks? Until they have answered, no event is sent to them.")
        history = gettext("Started the verification.")
        return self.ask_and_carry_out(request, queryset, _verify, action="verify", question=question, history=history)

    @admin.action(description=_("Send a test event"), permissions=["test"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        form = EventTypeForm(request.POST if self.is_confirmed(request) else None)
        if not form.is_valid():
            question = gettext("Which event is to be sent? Its data is the type's example.")
            return self.ask(request, queryset, action="send_test", question=question, form=form)
        event_type = form.cleaned_data["event_type"]
        history = gettext("Sent a test event of the type %(type)s.") % {"type": event_type}
        self.carry_out(request, queryset, lambda webhook: _send_test(webhook, event_type), history=history)
        return None

    @admin.action(description=_("Disable"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        reason = gettext("Disabled by %(name)s.") % {"name": request.user.get_username()}
        return self.ask_and_carry_out(
            request,
            queryset,
            lambda webhook: webhook.disable(reason),
            action="disable",
            question=gettext("Stop sending to these webhooks? What waits to be delivered to them is cancelled."),
            history=gettext("Disabled the webhook."),
        )

    @admin.action(description=_("Enable"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Enable these webhooks? Each is verified first.")
        history = gettext("Enabled the webhook.")
        return self.ask_and_carry_out(request, queryset, _enable, action="enable", question=question, history=history)

    @admin.action(description=_("Rotate the secret"), permissions=["rotate"])
    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if queryset.count() > 1:
            self.message_user(request, gettext("Select one webhook: its new secret is shown once."), messages.ERROR)
            return None
        form = OverlapForm(request.POST if self.is_confirmed(request) else None)
        if not form.is_valid():
            question = gettext("Make a new secret? It is shown once, and signs from the next request on.")
            return self.ask(request, queryset, action="rotate_secret", question=question, form=form)
        shown: list[TemplateResponse] = []

        def rotate(webhook: Webhook) -> None:
            webhook.rotate_secret(overlap=form.overlap)
            shown.append(self._show_secret(request, webhook))

        self.carry_out(request, queryset, rotate, history=gettext("Rotated the secret."))
        return shown[0] if shown else None

    @admin.action(description=_("Cut the old secret off"), permissions=["rotate"])
    def revoke_previous_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        return self.ask_and_carry_out(
            request,
            queryset,
            Webhook.revoke_previous_secret,
            action="revoke_previous_secret",
            question=gettext("Cut the old secrets off? From the next request on they sign nothing any more."),
            history=gettext("Cut the old secret off."),
        )

    def _show_secret(self, request: HttpRequest, webhook: Webhook) -> TemplateResponse:
        label = gettext("The secret of %(id)s is") % {"id": webhook.id}
        return self.show_once(request, label, webhook.secret)


def _verify(webhook: Webhook) -> None:
    limit_verification(webhook)
    start_verification(webhook)


def _send_test(webhook: Webhook, event_type: str) -> None:
    limit_test(webhook)
    send_test_event(webhook, event_type)


def _enable(webhook: Webhook) -> None:
    if webhook.status != Webhook.Status.DISABLED:
        raise WebhookStateError(f"Webhook {webhook.id} is not disabled; there is nothing to enable.")
    limit_verification(webhook)
    enable_webhook(webhook)
