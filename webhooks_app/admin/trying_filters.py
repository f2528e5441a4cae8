"""Evaluation of a webhook's filter on a past event."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Event, Webhook
from ..routing.admission import events_for
from ..routing.report import try_filter
from .actions import ActingAdmin
from .refusals import as_form_error
from .webhook_form import TryFilterForm


class FilterTrial(ActingAdmin):
    """Mixin for the admin of webhooks."""

    def has_try_filter_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return True if the user may view events, because the result quotes a value of the event's data."""
        return request.user.has_perm("webhooks_app.view_event")

    @admin.action(description=_("Try the filter"), permissions=["try_filter"])
    def try_filter(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        if queryset.count() != 1:
            self.message_user(request, gettext("Select one webhook."), messages.ERROR)
            return None
        webhook = queryset.get()
        form = TryFilterForm(request.POST if self.is_confirmed(request) else None, initial={"filter": webhook.filter})
        if form.is_valid():
            self._evaluate(request, webhook, form)
        question = gettext("Test a filter on a past event. Nothing is saved or sent.")
        return self.ask(request, queryset, action="try_filter", question=question, form=form)

    def _evaluate(self, request: HttpRequest, webhook: Webhook, form: TryFilterForm) -> None:
        event = Event.objects.filter(events_for(webhook), pk=form.cleaned_data["event_id"].strip()).first()
        if event is None:
            form.add_error("event_id", gettext("The webhook's owner has no event with this ID."))
            return
        try:
            found = try_filter(webhook, event, form.cleaned_data["filter"])
        except ValidationError as error:
            form.add_error(None, as_form_error(error))
            return
        if found is None:
            self.message_user(request, gettext("The filter matches: the event would be sent."), messages.SUCCESS)
        else:
            text = gettext("The event would not be sent: %(mismatch)s.") % {"mismatch": found}
            self.message_user(request, text, messages.WARNING)
