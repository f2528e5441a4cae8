"""Actions on webhooks, in their list and on their pages, with the rotation of their keys."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Event, Webhook
from ..operations.actors import BaseActor
from ..operations.registration import update_webhook
from ..operations.sending import send_test_event
from ..pages.actions import WEBHOOK_AND_MISSED
from ..pages.forms import REFUSALS, RotationForm, TestEventForm, TryFilterForm, add_errors, preview_of
from ..pages.shown_once import shown_by_first
from ..routing.admission import events_for
from ..routing.preview import try_filter
from .actions import DELETE, ActingAdmin, with_deletion
from .display import shows_deliveries
from .owned import actor_of, visible_event_types
from .portal_links import PortalLinks
from .replays import MissedEvents
from .shown_once import ShowingSecrets


class KeyRotation(ShowingSecrets):
    """To be mixed into the admin of webhooks."""

    def rotate_secret(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if (already_done := shown_by_first(request)) is not None:
            return already_done
        refusal = gettext("Select a single webhook: its new secret is shown only once.")
        if (webhook := self.only_one(request, queryset, refusal)) is None:
            return None
        form = RotationForm(request.POST if self.is_confirmed(request) else None, webhook=webhook)
        if not form.is_valid():
            return self.ask(request, queryset, action="rotate_secret", form=form)

        def rotate(webhook: Webhook, *, actor: BaseActor) -> str:
            secret, about = form.rotate(webhook, actor=actor)
            for level, text in about:
                self.message_user(request, text, level)
            return secret

        done = self.carry_out(request, queryset, rotate, history=gettext("Rotated the secret."))
        return self.show_once(request, *done[0]) if done and done[0][1] else None

    def label_of_secret(self, item: Webhook) -> str:
        return gettext("Secret of %(id)s") % {"id": item.id}


USE_FILTER = "use_filter"
"""Name of the button that saves the filter."""


class FilterTrial(ActingAdmin):
    """Mixin for the admin of webhooks."""

    def has_try_filter_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if the user may view events, because the result quotes a value of the event's data."""
        return request.user.has_perm("webhooks_app.view_event")

    @admin.action(description=_("Try the filter"), permissions=["try_filter"])
    def try_filter(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if (webhook := self.only_one(request, queryset, gettext("Select one webhook."))) is None:
            return None
        form = TryFilterForm(request.POST if self.is_confirmed(request) else None, initial={"filter": webhook.filter})
        more: dict[str, Any] = {}
        if form.is_valid() and USE_FILTER in request.POST:
            if self._use(request, webhook, form):
                return HttpResponseRedirect(self.page_url(webhook))
        elif form.is_valid():
            more = preview_of(webhook, form, event_url=lambda pk: self.url("event_change", pk))
            more["can_use"] = self.has_change_permission(request, webhook)
            if "preview" in more and form.cleaned_data["event_id"]:
                self._evaluate(request, webhook, form)
        question = gettext("Try a filter on past events. Nothing is sent, and nothing is saved before you use it.")
        return self.ask(request, queryset, action="try_filter", question=question, form=form, more=more)

    def _use(self, request: HttpRequest, webhook: Webhook, form: TryFilterForm) -> bool:
        """Save the filter as the webhook's. Return False if it is refused, with the error on the form."""
        if not self.has_change_permission(request, webhook):
            raise PermissionDenied
        try:
            update_webhook(webhook, actor=actor_of(request), filter=form.cleaned_data["filter"])
        except REFUSALS as error:
            add_errors(form, error)
            return False
        history = gettext("Changed the filter.")
        self.log_change(request, webhook, history)
        self.message_user(request, history, messages.SUCCESS)
        return True

    def _evaluate(self, request: HttpRequest, webhook: Webhook, form: TryFilterForm) -> None:
        event = Event.objects.filter(events_for(webhook), pk=form.cleaned_data["event_id"].strip()).first()
        if event is None:
            form.add_error("event_id", gettext("The webhook's account has no event with this ID."))
            return
        try:
            mismatch = try_filter(webhook, event, form.cleaned_data["filter"])
        except ValidationError as error:
            add_errors(form, error)
            return
        if mismatch is None:
            self.message_user(request, gettext("The filter matches: the event would be sent."), messages.SUCCESS)
        else:
            text = gettext("The event would not be sent: %(mismatch)s.") % {"mismatch": mismatch}
            self.message_user(request, text, messages.WARNING)


class WebhookActions(KeyRotation, PortalLinks, MissedEvents, FilterTrial):
    table = with_deletion(WEBHOOK_AND_MISSED)
    page_actions = (*(name for name in table if name != DELETE), "try_filter", "link_to_pages")
    actions = (*page_actions, DELETE)

    def has_button(self, item: Webhook, action: str) -> bool:
        if action == "link_to_pages":
            return item.owner_id is not None
        return action != "send_missed" and super().has_button(item, action)  # which is offered with their number

    def send_test(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        subscribed = [name for webhook in queryset[:1] for name in webhook.event_types]
        sent = request.POST if self.is_confirmed(request) or "show_example" in request.POST else None
        form = TestEventForm.of(sent, subscribed, event_types=visible_event_types(request))
        if not form.is_valid():
            return self.ask(request, queryset, action="send_test", form=form)
        event_type, data = form.cleaned_data["event_type"], form.cleaned_data["event_data"]
        history = gettext("Sent a test event of type %(type)s.") % {"type": event_type}
        operation = partial(send_test_event, event_type=event_type, data=data)
        done = self.carry_out(request, queryset, operation, history=history)
        if len(done) == 1 and shows_deliveries(request):
            return HttpResponseRedirect(self.delivery_url(done[0][1].pk))
        return None

    def after(self, request: HttpRequest, action: str, done: list[tuple[Any, Any]]) -> HttpResponseBase | None:
        if action in ("verify", "enable") and len(done) == 1:
            return HttpResponseRedirect(self.verification_url(done[0][0]))
        if action == "enable":
            self.suggest_replays(request, [webhook for webhook, _result in done])
        return super().after(request, action, done)

    def verification_url(self, webhook: Webhook) -> str:
        """Return the URL of the section that shows the progress of a verification."""
        return f"{self.page_url(webhook)}?section=verification"
