"""Actions on webhooks, in their list and on their pages."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..models import Webhook
from ..operations import lifecycle, rights
from ..operations.actors import BaseActor
from ..operations.sending import send_test_event
from ..operations.verification import start_verification
from .missed import MissedEvents
from .owned import visible_event_types
from .rotating_keys import KeyRotation
from .trying_filters import FilterTrial
from .webhook_form import TestEventForm


class WebhookActions(KeyRotation, MissedEvents, FilterTrial):
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
        "try_filter",
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
        "try_filter",
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
            "revoke_previous_secret": item.has_previous_keys,
        }.get(action, True)

    def has_verify_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, rights.VERIFY_WEBHOOK, obj)

    def has_test_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, rights.TEST_WEBHOOK, obj)

    def has_pause_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, rights.PAUSE_WEBHOOK, obj)

    @admin.action(description=_("Verify"), permissions=["verify"])
    def verify(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Start the verification? No events are sent until it succeeds.")
        history = gettext("Started the verification.")
        return self.ask_and_carry_out(
            request, queryset, start_verification, action="verify", question=question, history=history
        )

    @admin.action(description=_("Send a test event"), permissions=["test"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        form = self._test_form(request, queryset)
        if not form.is_valid():
            question = gettext("Choose the test event. It is recorded as a test and sent only to the webhooks below.")
            return self.ask(request, queryset, action="send_test", question=question, form=form)
        event_type, data = form.cleaned_data["event_type"], form.cleaned_data["event_data"]
        history = gettext("Sent a test event of type %(type)s.") % {"type": event_type}
        self.carry_out(request, queryset, partial(send_test_event, event_type=event_type, data=data), history=history)
        return None

    def _test_form(self, request: HttpRequest, webhooks: QuerySet[Any]) -> TestEventForm:
        event_types = visible_event_types(request)
        if "show_example" in request.POST or not self.is_confirmed(request):
            subscribed = (name for webhook in webhooks[:1] for name in webhook.event_types)
            event_type = request.POST.get("event_type") or next(subscribed, "")
            return TestEventForm.with_example(event_type, event_types=event_types)
        return TestEventForm(request.POST, event_types=event_types)

    @admin.action(description=_("Pause"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = ngettext(
            "Pause this webhook? Events queue up and are sent when you resume.",
            "Pause these webhooks? Events queue up and are sent when you resume.",
            queryset[:2].count(),
        )
        history = gettext("Paused the webhook.")
        return self.ask_and_carry_out(
            request, queryset, lifecycle.pause, action="pause", question=question, history=history
        )

    @admin.action(description=_("Resume"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Resume sending? Held deliveries are sent first.")
        history = gettext("Resumed the webhook.")
        return self.ask_and_carry_out(
            request, queryset, lifecycle.resume, action="resume", question=question, history=history
        )

    @admin.action(description=_("Disable"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        return self.ask_and_carry_out(
            request,
            queryset,
            lifecycle.disable,
            action="disable",
            question=gettext("Stop sending? Pending deliveries are cancelled."),
            history=gettext("Disabled the webhook."),
        )

    @admin.action(description=_("Enable"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        question = gettext("Enable and verify? No events are sent until the verification succeeds.")
        history = gettext("Enabled the webhook.")
        enabled: list[Webhook] = []

        def enable(webhook: Webhook, *, actor: BaseActor) -> None:
            lifecycle.enable(webhook, actor=actor)
            enabled.append(webhook)

        answer = self.ask_and_carry_out(request, queryset, enable, action="enable", question=question, history=history)
        self.offer_replays(request, enabled)
        return answer
