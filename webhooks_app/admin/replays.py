"""Replays in the admin: a form that plans and counts, a page with progress and controls, and links from a webhook."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry
from ..models import Replay, Webhook
from ..models.limits import MAX_RATE
from ..models.replay import LEAST_RATE
from ..operations import replays
from ..operations.rights import REPLAY
from ..pages.actions import REPLAY as STEPS
from ..pages.actions import WEBHOOK_AND_MISSED
from ..pages.display import missed_in_words
from ..pages.forms import REFUSALS, GroupedCheckboxes, add_errors, event_type_choices
from ..pages.lists import REPLAYS
from ..pages.replays import (
    MissedEventsForm,
    failing_sentences,
    last_answer,
    latest_of,
    moved_start,
    progress_of,
    status_in_words,
)
from .actions import ActingAdmin, LivePage, explaining
from .display import column, page_of, shows_deliveries, time_column
from .export import ExportingAdmin
from .owned import OwnedAdmin, ReadOnlyAdmin, actor_of, as_shown, manages_all, own_rows, visible_event_types

MAX_RECOVERED = 50
"""Webhooks whose missed events are sent by one action."""


def may_replay(request: HttpRequest) -> bool:
    return actor_of(request).holds(REPLAY)


def plan_url(console: OwnedAdmin, webhook_id: str, since: datetime) -> str:
    """Return the URL of the form for a replay, filled in for the events of a webhook since a time."""
    return console.url("replay_add", webhook=webhook_id, since=f"{timezone.localtime(since):%Y-%m-%dT%H:%M:%S}")


class ReplayForm(MissedEventsForm):
    webhook: forms.ModelChoiceField[Webhook] = forms.ModelChoiceField(
        label=_("Webhook"),
        queryset=None,
        widget=forms.TextInput(attrs={"class": "vURLField"}),
        help_text=_("ID (wh_…). The page of each webhook has a button for its replay."),
        error_messages={"invalid_choice": _("No webhook with this ID is visible to you.")},
    )
    event_types = forms.MultipleChoiceField(
        label=_("Event types"),
        required=False,
        widget=GroupedCheckboxes,
        help_text=_("Default: all subscribed event types."),
    )
    rate = forms.FloatField(
        label=_("Deliveries per second"),
        required=False,
        min_value=LEAST_RATE,
        max_value=MAX_RATE,
        help_text=_("Upper limit. Default: the value of the setting. Live traffic takes precedence."),
    )

    field_order = ("webhook",)

    def __init__(self, *args: Any, webhooks: Any, event_types: EventTypeRegistry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["webhook"].queryset = webhooks  # type: ignore[attr-defined]
        if not self.is_bound and (webhook := webhooks.filter(pk=self.initial.get("webhook")).first()) is not None:
            event_types = event_types.where(lambda event_type: event_type.name in webhook.event_types)
        self.fields["event_types"].choices = event_type_choices(event_types)  # type: ignore[attr-defined]


@admin.register(Replay)
class ReplayAdmin(ReadOnlyAdmin, LivePage, ExportingAdmin):
    listed = REPLAYS
    list_display = ("created", "target", "state", "progress", "requested_by")
    exported = {  # noqa: RUF012
        "target": {"webhook_id": "webhook_id", "url": "webhook.url"},
        "progress": {"queued": "queued", "matched": "matched"},
        "requested_by": {"requested_by": lambda replay: replay.requested_by and str(replay.requested_by)},
    }
    fields = (
        "own_id",
        "webhook_link",
        ("since_shown", "until_shown"),
        "types_shown",
        "states_shown",
        "rate_shown",
        ("created", "requested_by"),
        ("started", "finished"),
    )
    table = STEPS
    actions = page_actions = tuple(STEPS)
    unasked_actions = ("start",)
    change_form_template = "admin/webhooks_app/replay/change_form.html"
    live_template = "replay/progress"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("webhook", "requested_by")

    # Permissions

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may_replay(request) and (manages_all(request) or bool(actor_of(request).owners_for(REPLAY)))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_replay(request) or super().has_view_permission(request, obj)

    # The form

    @explaining
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Plan a replay and count its events. Nothing is sent yet."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        webhooks = own_rows(request, Webhook.objects.existing())
        form = ReplayForm(
            request.POST or None,
            initial=request.GET.dict(),
            webhooks=webhooks,
            event_types=visible_event_types(request),
        )
        if form.is_valid() and (replay := self._plan(request, form)) is not None:
            self.log_addition(request, replay, gettext("Planned the replay."))
            if moved := moved_start(replay, form.cleaned_data["since"]):
                self.message_user(request, moved, messages.WARNING)
            return HttpResponseRedirect(self.page_url(replay))
        webhook = webhooks.filter(pk=request.GET.get("webhook", "")).first()
        return page_of(
            self,
            request,
            "replay/plan",
            title=gettext("Replay events"),
            form=form,
            failing=failing_sentences(replays.failures_of(webhook)) if webhook else [],
            warning=WEBHOOK_AND_MISSED["send_missed"].refusal(webhook) if webhook else "",
            webhook=self.link_to(webhook) if webhook else "",
        )

    def _plan(self, request: HttpRequest, form: ReplayForm) -> Replay | None:
        try:
            return replays.plan(**form.cleaned_data, actor=actor_of(request))
        except REFUSALS as error:
            add_errors(form, error)
        return None

    # The page

    def live_context(self, request: HttpRequest, item: Replay) -> dict[str, Any]:
        """Return the progress, and the last answer for users who may view deliveries."""
        views_events = request.user.has_perm("webhooks_app.view_event")
        progress = progress_of(item, event_url=lambda pk: self.url("event_change", pk) if views_events else "")
        progress["steps"] = self.buttons(request, item)
        if shows_deliveries(request):
            rows = as_shown(request, item.deliveries.all())
            progress |= last_answer(rows, progress["latest"].answered, shows_body=views_events, url=self.delivery_url)
            progress["deliveries_url"] = self.deliveries_url(q=item.pk) if item.started_at else ""
        return progress

    # Columns and fields

    created = time_column("created_at", _("created"))
    since_shown = time_column("since", _("from"))
    until_shown = time_column("until", _("to"))
    started = time_column("started_at", _("started"))
    finished = time_column("finished_at", _("finished"))
    types_shown = column(
        _("event types"), lambda replay: ", ".join(replay.event_types) or gettext("all subscribed event types")
    )
    rate_shown = column(_("deliveries per second"), lambda replay: f"{replay.per_second:g}")

    @admin.display(description=_("webhook"))
    def target(self, replay: Replay) -> SafeString:
        return self.shown_url(replay.webhook, is_linked=False)

    @admin.display(description=_("queued"))
    def progress(self, replay: Replay) -> str:
        return gettext("%(queued)d of %(matched)d") % {"queued": replay.queued, "matched": replay.matched}

    @admin.display(description=_("webhook"))
    def webhook_link(self, replay: Replay) -> SafeString:
        return self.webhook_with_url(replay.webhook, replay.webhook.url)

    @admin.display(description=_("which events"))
    def states_shown(self, replay: Replay) -> str:
        labels = dict(Replay.Outcome.choices)
        return ", ".join(str(labels.get(state, state)) for state in replay.states)

    def described(self, item: Replay) -> str:
        return f"{item.webhook.url} ({item.pk})"


class MissedEvents(ActingAdmin):
    """Mixin for the admin of webhooks."""

    def replay_missed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """Redirect to the replay form, filled in for this webhook."""
        webhook = self.only_one(request, queryset, gettext("Select a single webhook: the missed events differ."))
        return None if webhook is None else HttpResponseRedirect(self._plan_url(webhook))

    def send_missed(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """Replay the events missed since the first failing period of the last week, and lead to the progress.

        Of several webhooks each is counted for a share of the time. Workers continue.
        """
        number = queryset.count()
        if number > MAX_RECOVERED:
            text = gettext("Select at most %(number)d webhooks.")
            self.message_user(request, text % {"number": MAX_RECOVERED}, messages.ERROR)
            return None
        operation = partial(replays.send_missed, max_seconds=replays.COUNT_SECONDS / max(1, number))
        return self.ask_and_carry_out(request, queryset, "send_missed", operation=operation, history=_what_happened)

    def after(self, request: HttpRequest, action: str, done: list[tuple[Any, Any]]) -> HttpResponseBase | None:
        if action != "send_missed" or len(done) != 1:
            return super().after(request, action, done)
        return HttpResponseRedirect(self.url("replay_change", done[0][1].pk))

    def missed(self, request: HttpRequest, webhook: Webhook) -> dict[str, Any]:
        """Return the missed events with a link to send them, if there may be any and the user may do this."""
        is_ready = webhook.status == Webhook.Status.ACTIVE and webhook.paused_at is None
        if not is_ready or not self.may_run(request, "send_missed", webhook):
            return {}
        if not replays.failures_of(webhook):
            return {}
        counted = replays.count_missed(webhook)
        if not counted.is_possible:
            return {}
        text = missed_in_words([counted])
        return {"missed": counted, "missed_text": text, "send_missed_url": self.page_url(webhook, "act", "send_missed")}

    def suggest_replays(self, request: HttpRequest, webhooks: list[Webhook]) -> None:
        """Show a link to the replay form to users who may replay."""
        if not may_replay(request):
            return
        text = gettext('The webhook {webhook} may have missed events. <a href="{url}">Replay events</a>')
        for webhook in webhooks:
            link = format_html(text, webhook=webhook.url, url=self._plan_url(webhook))
            self.message_user(request, link, messages.INFO)

    def _plan_url(self, webhook: Webhook) -> str:
        return plan_url(self, webhook.pk, replays.missed_since(webhook))


def _what_happened(replay: Replay) -> str:
    if replay.state == Replay.State.COUNTING:
        return gettext("The missed events are still being counted. They are sent when that is done.")
    if replay.state == Replay.State.DONE and not replay.matched:
        return status_in_words(replay, latest_of(replay))
    return gettext("Started to send the missed events.")
