"""Actions on selected rows: confirmed, limited in number, and recorded in the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.forms import Form
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern
from django.utils.text import Truncator
from django.utils.translation import gettext

from ..error_reports import hide_values
from ..operations.actors import lacking
from ..operations.rights import AccessDeniedError
from ..pages.actions import Button, UserAction
from ..pages.confirmations import ReasonForm
from ..pages.forms import REFUSALS, as_form_error, refusal_of, refuse
from .audit import AuditedAdmin
from .display import page_of
from .owned import actor_of

MAX_SELECTED = 100
MAX_CRUMB = 60
MAX_REFUSALS_NAMED = 3
"""Maximum number of refused rows that are named in messages."""
CONFIRMED = "confirmed"
DELETE = "delete_selected"


def explaining(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return a view of an ActingAdmin that answers a refusal by the owner policy with its reason."""

    @wraps(view)
    def explained(admin: ActingAdmin, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        object_id = args[0] if args else kwargs.get("object_id")
        try:
            return view(admin, request, *args, **kwargs)
        except AccessDeniedError as error:
            return admin.refused(request, str(error))
        except PermissionDenied:
            item = admin.get_object(request, unquote(object_id)) if object_id else None
            if admin.permits(request, item):
                raise
            return admin.refused(request, admin.reason_of_refusal(request, item))

    return explained


def _on_permitted_rows(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def checked(admin: ActingAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return None if admin.changes_refused(request, run.__name__, queryset) else run(admin, request, queryset)

    return checked


def _permitted(action: Any) -> Any:
    """Return an action that runs on permitted rows only. Before Django 6.1 an action is a tuple."""
    if isinstance(action, tuple):
        run, name, text = action
        return _on_permitted_rows(run), name, text
    return replace(action, func=_on_permitted_rows(action.func))


class ActingAdmin(AuditedAdmin):
    """Base of admins whose actions run row by row and can ask for confirmation."""

    page_actions: tuple[str, ...] = ()
    """Actions with a button on the page of a row, in this order."""

    unasked_actions: tuple[str, ...] = ()
    """Those of the page's actions whose button runs them at once."""

    table: Mapping[str, UserAction] = {}
    """What the actions are. Those without a method of their own get one that asks for confirmation."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, entry in cls.table.items():
            if not hasattr(cls, name):
                setattr(cls, name, _asking(name))
            if name != DELETE:
                getattr(cls, name).short_description = entry.label

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("<path:object_id>/act/<str:action>/", self.act_view, "act"), *super().get_urls()]

    def has_button(self, item: Any, action: str) -> bool:
        """Return True if the row has a button for the action, whose state permits it."""
        return action not in self.table or self.table[action].is_for(item)

    def buttons(self, request: HttpRequest, item: Any, among: Sequence[str] | None = None) -> list[Button]:
        """Return the buttons for the actions that the user may run on a row, by default for all of its page."""
        allowed = self.get_actions(request)
        return [
            Button(
                getattr(self, action).short_description,
                self.page_url(item, "act", action),
                action in self.table and self.table[action].is_destructive,
                action in self.unasked_actions,
            )
            for action in (self.page_actions if among is None else among)
            if action in allowed and self.may_run(request, action, item) and self.has_button(item, action)
        ]

    def described(self, item: Any) -> str:
        """Return a row as its confirmation names it."""
        return str(item)

    def crumb_of(self, item: Any) -> str:
        """Return a row as breadcrumbs name it."""
        return str(item)

    def may_run(self, request: HttpRequest, action: str, item: Any) -> bool:
        """Return True if the user has the permissions of an action for this row."""
        if action in self.table and action != DELETE:
            return self.may(request, self.table[action].right, item)
        needed = getattr(getattr(self, action), "allowed_permissions", ())
        return all(getattr(self, f"has_{name}_permission")(request, item) for name in needed)

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        """Return the actions of the list. They do nothing if the user lacks their permission for a selected row.

        Django has passed an ``action_location`` since version 6.1.
        """
        location = () if action_location is None else (action_location,)
        actions: dict[str, Any] = dict(super().get_actions(request, *location))
        return {
            name: _permitted(action)
            for name, action in actions.items()
            if name not in self.table or self.may_run(request, name, None)
        }

    def changes_refused(self, request: HttpRequest, action: str, queryset: QuerySet[Any]) -> bool:
        """Show a message and return True if the user lacks the permission of an action for one of the rows."""
        refused = [item for item in queryset[: MAX_SELECTED + 1] if not self.may_run(request, action, item)]
        if not refused:
            return False
        text = gettext("%(row)s: %(reason)s Nothing was done.")
        for item in refused[:MAX_REFUSALS_NAMED]:
            reason = self.reason_of_refusal(request, item)
            self.message_user(request, text % {"row": item, "reason": reason}, messages.ERROR)
        return True

    def page_url(self, item: Any, page: str = "change", *args: str) -> str:
        """Return the URL of a page about a row."""
        return self._url(page, quote(item.pk), *args)

    @explaining
    def act_view(self, request: HttpRequest, object_id: str, action: str) -> HttpResponseBase:
        """Run an action of the list on one row, after the same confirmation."""
        hide_values(request)
        allowed = self.get_actions(request).keys() & self.page_actions
        if action not in allowed or not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return self._act(request, object_id, action) or HttpResponseRedirect(
            self._url("change", quote(unquote(object_id)))
        )

    def _act(self, request: HttpRequest, object_id: str, action: str) -> HttpResponseBase | None:
        item = self.find(request, object_id)
        if not self.may_run(request, action, item):
            raise AccessDeniedError(self.reason_of_refusal(request, item))
        rows = self.get_queryset(request).filter(pk=item.pk)
        answer: HttpResponseBase | None = getattr(self, action)(request, rows)
        return answer

    def page_context(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        buttons = [] if item is None else self.buttons(request, item)
        return {**super().page_context(request, item), "page_actions": buttons}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        hide_values(request)
        return super().changelist_view(request, extra_context)

    def response_action(self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any) -> Any:
        """Run an action on the selected rows. "Select all" never includes rows that the page does not show."""
        form: Any = request.POST.copy()
        form.pop("select_across", None)
        request.POST = form
        return super().response_action(request, queryset, *args, **kwargs)

    @explaining
    def delete_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Delete a row after the same confirmation as in the list."""
        hide_values(request)
        if not self.has_delete_permission(request):
            raise PermissionDenied
        return self._act(request, object_id, DELETE) or HttpResponseRedirect(self._url("changelist"))

    def reason_of_refusal(self, request: HttpRequest, item: Any) -> str:
        """Return the reason why the owner policy refuses a change of a row."""
        return lacking(actor_of(request).access_to(self.owner_id_of(item)))

    def refused(self, request: HttpRequest, reason: str) -> TemplateResponse:
        """Return a page with the reason why the user may not do this."""
        return page_of(self, request, "refused", status=403, title=gettext("Not permitted"), reason=reason)

    @explaining
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Show the page. If an operation refuses a valid form, show the form again with the reason."""
        hide_values(request)
        try:
            return super().changeform_view(request, *args, **kwargs)
        except REFUSALS as error:
            if refusal_of(request) is not None:
                raise
            refuse(request, error)
        return super().changeform_view(request, *args, **kwargs)

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, *args, **kwargs)
        form.refusal = refusal_of(request)
        return form

    def is_confirmed(self, request: HttpRequest) -> bool:
        """Return True for the form of a confirmation. Django's own one of a deletion has the field "post"."""
        return CONFIRMED in request.POST or "post" in request.POST

    def ask_and_carry_out(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        action: str,
        *,
        operation: Callable[..., object] | None = None,
        history: Callable[[Any], str] | None = None,
    ) -> HttpResponseBase | None:
        """Ask for confirmation, and for a reason if there is one to ask, then run an action on each selected row.

        ``operation`` replaces that of the table, and ``history`` returns what is said about its return value.
        """
        entry = self.table[action]
        operation = operation or entry.operation
        assert operation is not None
        if entry.asks_reason:
            form = ReasonForm(request.POST if self.is_confirmed(request) else None)
            if not form.is_valid():
                return self.ask(request, queryset, action=action, form=form)
            operation = partial(operation, reason=form.cleaned_data["reason"])
        elif not self.is_confirmed(request):
            return self.ask(request, queryset, action=action)
        said = history or (lambda _result: str(entry.done))
        done = self.carry_out(request, queryset, operation, history=said, is_deletion=action == DELETE)
        return self.after(request, action, done)

    def after(self, request: HttpRequest, action: str, done: list[tuple[Any, Any]]) -> HttpResponseBase | None:
        """Return where an action leads, if not back. ``done`` has the rows that were not refused, with the results."""
        return None

    def only_one(self, request: HttpRequest, queryset: QuerySet[Any], otherwise: str) -> Any:
        """Return the selected row. If another number is selected, show a message and return None."""
        selected = list(queryset[:2])
        if len(selected) == 1:
            return selected[0]
        self.message_user(request, otherwise, messages.ERROR)
        return None

    def ask(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        *,
        action: str,
        question: str = "",
        form: Form | None = None,
        more: Any = None,
    ) -> TemplateResponse | None:
        """Return a confirmation page that lists the selected rows and calls the same action again.

        If the state of none of the rows permits the action, show the reasons and return None. ``question`` is for
        actions with a form of their own. ``more`` is further context of the page.
        """
        selected = self._selected(request, queryset)
        entry = self.table.get(action)
        refusals = dict.fromkeys(entry.refusal(item) for item in selected) if entry else {"": None}
        if all(refusals):  # also if nothing is selected
            for refusal in refusals:
                self.message_user(request, refusal, messages.ERROR)
            return None
        return page_of(
            self,
            request,
            "confirm_action",
            title=entry.label if entry else getattr(self, action).short_description,
            question=question or (entry.asked_of(len(selected)) if entry else ""),
            consequences=entry.consequences(selected) if entry else [],
            is_destructive=entry is not None and entry.is_destructive,
            form=form,
            objects=selected,
            named=[self.described(item) for item in selected],
            action=action,
            confirmed=CONFIRMED,
            action_checkbox_name=ACTION_CHECKBOX_NAME,
            back_url=self._back_url(request),
            crumb=Truncator(self.crumb_of(selected[0])).chars(MAX_CRUMB) if _object_id(request) else "",
            **(more or {}),
        )

    def carry_out(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        operation: Callable[..., object],
        *,
        history: str | Callable[[Any], str],
        is_deletion: bool = False,
    ) -> list[tuple[Any, Any]]:
        """Call the operation with each selected row and the actor. Show what was done, how often, and the refusals.

        Return the rows that were not refused, each with the result.
        """
        done: list[tuple[Any, Any]] = []
        texts: Counter[str] = Counter()
        refusals: dict[str, None] = {}
        for item in self._selected(request, queryset):
            kept = copy(item)  # Django removes the primary key of a deleted one
            try:
                result = operation(item, actor=actor_of(request))
            except REFUSALS as error:
                refusals.update(dict.fromkeys(as_form_error(error).messages))
            except AccessDeniedError as error:
                refusals[str(error)] = None
            else:
                text = history(result) if callable(history) else history
                if is_deletion:
                    self.log_deletions(request, [kept])  # type: ignore[arg-type]  # any iterable
                else:
                    self.log_change(request, kept, text)
                texts[text] += 1
                done.append((item, result))
        for refusal in refusals:
            self.message_user(request, refusal, messages.ERROR)
        for text, number in texts.items():
            self.message_user(request, text if number == 1 else f"{text} ({number})", messages.SUCCESS)
        return done

    @admin.action(permissions=["delete"], description=delete_selected.short_description)  # type: ignore[attr-defined]
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        return self.ask_and_carry_out(request, queryset, DELETE)

    def _back_url(self, request: HttpRequest) -> str:
        """Return the URL of the page where the action started: a row's page or the list."""
        args = [pk] if (pk := _object_id(request)) else []
        return self._url("change" if args else "changelist", *args)

    def _url(self, page: str, *args: str) -> str:
        return self.url(f"{self.opts.model_name}_{page}", *args)

    def _selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the selected rows. Above the limit, show a message and return none."""
        selected = list(queryset[: MAX_SELECTED + 1])
        if len(selected) <= MAX_SELECTED:
            return selected
        refusal = gettext("Select at most %(limit)d at once.") % {"limit": MAX_SELECTED}
        self.message_user(request, refusal, messages.ERROR)
        return []


class LivePage(ActingAdmin):
    """An admin whose page of a row has a part that is refreshed, with the buttons, which depend on the state."""

    live_template: str

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("<path:object_id>/live/", self.live_view, "live"), *super().get_urls()]

    def live_context(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        raise NotImplementedError

    def page_context(self, request: HttpRequest, item: Any) -> dict[str, Any]:
        return {"page_actions": [], "live_url": self.page_url(item, "live"), **self.live_context(request, item)}

    def live_view(self, request: HttpRequest, object_id: str) -> TemplateResponse:
        """Return the current state of the part."""
        context = self.live_context(request, self.viewed(request, object_id))
        return TemplateResponse(request, f"admin/webhooks_app/{self.live_template}.html", context)


def _object_id(request: HttpRequest) -> str:
    """Return the quoted key of the row on whose page an action runs; "" in a list."""
    return str(request.resolver_match.kwargs.get("object_id", "")) if request.resolver_match else ""


def _asking(name: str) -> Callable[..., HttpResponseBase | None]:
    """Return the method of an action that asks for confirmation."""

    def run(self: ActingAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        return self.ask_and_carry_out(request, queryset, name)

    run.__name__ = name
    return run


def with_deletion(table: Mapping[str, UserAction]) -> dict[str, UserAction]:
    """Return a table in which the deletion has the name that Django gives to it."""
    return {DELETE if name == "delete" else name: action for name, action in table.items()}
