"""What can be done to webhooks in the admin, in their list and on their pages."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..emission import send_test_event
from ..exceptions import WebhookStateError
from ..models import Webhook
from ..rate_limits import limit_test, limit_verification
from ..registration import enable_webhook
from ..verification import start_verification
from .missed import MissedEvents
from .owned import manages_all
from .webhook_form import OverlapForm, TestEventForm


class WebhookActions(MissedEvents):
    actions = (
        "verify",
        "send_test",
        "pause",
        "resume",
        "disable",
        "enable",
        "rotate_secret",
        "revoke_previous_secret",
        "replay_missed",
        "delete_selected",
    )

    page_actions = (
        "send_test",
        "verify",
        "pause",
        "resume",
        "enable",
        "disable",
        "rotate_secret",
        "revoke_previous_secret",
        "replay_missed",
    )

    def offers(self, item: Webhook, action: str) -> bool:
        is_disabled = item.status == Webhook.Status.DISABLED
        is_paused = item.paused_at is not None
        return {
            "send_test": not is_disabled and not is_paused,
            "verify": not is_disabled and not is_paused,
            "pause": not is_disabled and not is_paused and item.status != Webhook.Status.FAILED,
            "resume": is_paused,
            "enable": is_disabled,
            "disable": not is_disabled,
            "revoke_previous_secret": bool(item.encrypted_previous_secret),
        }.get(action, True)

    def has_verify_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.verify_webhook")

    def has_test_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.test_webhook")

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.pause_webhook")

    def has_rotate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("webhooks_app.rotate_webhook_secret")

    @admin.action(description=_("Verify"), permissions=["verify"])
    def verify(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Verify these webhooks? Until they have answered, no event is sent to them.")
        history = gettext("Started the verification.")
        return self.ask_and_carry_out(request, queryset, _verify, action="verify", question=question, history=history)

    @admin.action(description=_("Send a test event"), permissions=["test"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        form = self._test_form(request, queryset)
        if not form.is_valid():
            question = gettext("Which event is to be sent? It is recorded as a test, and sent to these webhooks alone.")
            return self.ask(request, queryset, action="send_test", question=question, form=form)
        event_type, data = form.cleaned_data["event_type"], form.cleaned_data["event_data"]
        history = gettext("Sent a test event of the type %(type)s.") % {"type": event_type}
        self.carry_out(request, queryset, lambda webhook: _send_test(webhook, event_type, data), history=history)
        return None

    def _test_form(self, request: HttpRequest, webhooks: QuerySet[Any]) -> TestEventForm:
        operational = manages_all(request)
        if "show_example" in request.POST or not self.is_confirmed(request):
            subscribed = (name for webhook in webhooks[:1] for name in webhook.event_types)
            event_type = request.POST.get("event_type") or next(subscribed, "")
            return TestEventForm.with_example(event_type, operational=operational)
        return TestEventForm(request.POST, operational=operational)

    @admin.action(description=_("Pause"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext(
            "Hold what is to be sent to these webhooks? Nothing is lost: it is sent when they are resumed."
        )
        history = gettext("Paused the webhook.")
        return self.ask_and_carry_out(
            request, queryset, Webhook.pause, action="pause", question=question, history=history
        )

    @admin.action(description=_("Resume"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Send to these webhooks again? What was held comes first.")
        history = gettext("Resumed the webhook.")
        return self.ask_and_carry_out(
            request, queryset, Webhook.resume, action="resume", question=question, history=history
        )

    @admin.action(description=_("Disable"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        return self.ask_and_carry_out(
            request,
            queryset,
            lambda webhook: _disable(webhook, request.user.pk),
            action="disable",
            question=gettext("Stop sending to these webhooks? What waits to be delivered to them is cancelled."),
            history=gettext("Disabled the webhook."),
        )

    @admin.action(description=_("Enable"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Enable these webhooks? Each is verified first.")
        history = gettext("Enabled the webhook.")
        enabled: list[Webhook] = []

        def enable(webhook: Webhook) -> None:
            _enable(webhook)
            enabled.append(webhook)

        answer = self.ask_and_carry_out(request, queryset, enable, action="enable", question=question, history=history)
        self.offer_replays(request, enabled)
        return answer

    @admin.action(description=_("Rotate the secret"), permissions=["rotate"])
    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if queryset.count() > 1:
            self.message_user(request, gettext("Select one webhook: its new secret is shown once."), messages.ERROR)
            return None
        webhook = queryset.first()
        initial = {"replaces": _mark_of_secret(webhook)} if webhook else {}
        form = OverlapForm(request.POST if self.is_confirmed(request) else None, initial=initial)
        if not form.is_valid():
            question = gettext("Make a new secret? It is shown once, and signs from the next request on.")
            return self.ask(request, queryset, action="rotate_secret", question=question, form=form)
        shown: list[TemplateResponse] = []

        def rotate(webhook: Webhook) -> None:
            _rotate(webhook, form)
            shown.append(self.show_secret(request, webhook))

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

    def show_secret(self, request: HttpRequest, webhook: Webhook, **context: Any) -> TemplateResponse:
        label = gettext("The secret of %(id)s is") % {"id": webhook.id}
        item_url = self.page_url(webhook)
        return self.show_once(request, label, webhook.secret, item=webhook, item_url=item_url, **context)


def _verify(webhook: Webhook) -> None:
    limit_verification(webhook)
    start_verification(webhook)


def _send_test(webhook: Webhook, event_type: str, data: dict[str, Any] | None) -> None:
    limit_test(webhook)
    send_test_event(webhook, event_type, data)


@transaction.atomic
def _rotate(webhook: Webhook, form: OverlapForm) -> None:
    """Replace the secret that the form asked about, and no newer one: sent twice, it would end the first overlap."""
    asked_about = form.cleaned_data["replaces"]
    if asked_about and asked_about != _mark_of_secret(webhook.lock()):
        raise WebhookStateError(f"The secret of webhook {webhook.id} was rotated meanwhile, and is left as it is.")
    webhook.rotate_secret(overlap=form.overlap)


def _mark_of_secret(webhook: Webhook) -> str:
    """Return what tells one secret from another, and nothing about either."""
    return hashlib.sha256(webhook.encrypted_secret.encode()).hexdigest()[:16]


def _disable(webhook: Webhook, account_id: Any) -> None:
    """Disable a webhook, for a reason that the API tells its owner in English, and that names nobody."""
    if webhook.status == Webhook.Status.DISABLED:
        raise WebhookStateError(f"Webhook {webhook.id} is disabled already.")
    is_owners = webhook.owner_id is not None and webhook.owner_id == account_id
    webhook.disable("Disabled by its owner." if is_owners else "Disabled by the operator.")


def _enable(webhook: Webhook) -> None:
    if webhook.status != Webhook.Status.DISABLED:
        raise WebhookStateError(f"Webhook {webhook.id} is not disabled; there is nothing to enable.")
    limit_verification(webhook)
    enable_webhook(webhook)
