"""Actions on selected rows: asked about where they destroy, counted, capped and written into the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.forms import Form
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext

from ..error_reports import keep_discreet
from ..exceptions import WebhooksError
from .display import shown_once
from .owned import OwnedAdmin

MAX_SELECTED = 100
CONFIRMED = "confirmed"


class ActingAdmin(OwnedAdmin):
    """Carries out actions row by row, and asks before it does where that is wanted."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        keep_discreet(request)
        return super().changelist_view(request, extra_context)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        keep_discreet(request)
        return super().changeform_view(request, *args, **kwargs)

    def is_confirmed(self, request: HttpRequest) -> bool:
        return CONFIRMED in request.POST

    def ask_and_carry_out(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        verb: Callable[[Any], object],
        *,
        action: str,
        question: str,
        history: str,
    ) -> TemplateResponse | None:
        """Ask the question and, once it is confirmed, call ``verb`` with each selected row."""
        if not self.is_confirmed(request):
            return self.ask(request, queryset, action=action, question=question)
        self.carry_out(request, queryset, verb, history=history)
        return None

    def ask(
        self, request: HttpRequest, queryset: QuerySet[Any], *, action: str, question: str, form: Form | None = None
    ) -> TemplateResponse | None:
        """Return a page that names the selected rows and, once confirmed, calls the same action again."""
        selected = self._selected(request, queryset)
        if not selected:
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": getattr(self, action).short_description,
            "question": question,
            "form": form,
            "objects": selected,
            "action": action,
            "confirmed": CONFIRMED,
            "action_checkbox_name": ACTION_CHECKBOX_NAME,
            "opts": self.opts,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/webhooks_app/confirm_action.html", context)

    def carry_out(
        self, request: HttpRequest, queryset: QuerySet[Any], verb: Callable[[Any], object], *, history: str
    ) -> None:
        """Call ``verb`` with each selected row, and say for how many it was done and why not for the others."""
        done = 0
        refusals: dict[str, None] = {}
        for item in self._selected(request, queryset):
            try:
                verb(item)
            except WebhooksError as error:
                refusals[str(error)] = None
            else:
                self.log_change(request, item, history)
                done += 1
        for refusal in refusals:
            self.message_user(request, refusal, messages.ERROR)
        if done:
            self.message_user(request, f"{history} ({done})", messages.SUCCESS)

    @admin.action(permissions=["delete"], description=delete_selected.short_description)  # type: ignore[attr-defined]
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> TemplateResponse | None:
        return delete_selected(self, request, queryset) if self._selected(request, queryset) else None

    def show_once(self, request: HttpRequest, label: str, secret: str) -> TemplateResponse:
        """Return a page with a secret. Not a message: those are kept, readable, in a cookie or in the database."""
        context = {
            **self.admin_site.each_context(request),
            "title": label,
            "shown": shown_once(label, secret),
            "opts": self.opts,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/webhooks_app/shown_once.html", context)

    def _selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the selected rows; none of them, with a message, where there are more than anybody looks through."""
        selected = list(queryset[: MAX_SELECTED + 1])
        if len(selected) <= MAX_SELECTED:
            return selected
        refusal = gettext("Select at most %(limit)d at once.") % {"limit": MAX_SELECTED}
        self.message_user(request, refusal, messages.ERROR)
        return []
