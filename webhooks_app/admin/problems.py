"""Problems in the admin: failed attempts grouped by webhook, result and status code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Problem
from ..models.standing import healths_of
from ..operations import replays
from ..operations.rights import REPLAY
from ..pages.actions import PROBLEM
from ..pages.display import NO_VALUE, grouped, in_tone, missed_in_words, moment
from ..pages.health import in_short
from ..pages.lists import KNOWN_PROBLEMS
from ..replays.missed import Missed
from ..replays.planning import MARGIN
from .actions import ActingAdmin
from .display import column, shows_deliveries, time_column
from .export import ExportingAdmin, account_of, shown_account_of
from .impact import ImpactPage
from .owned import ReadOnlyAdmin
from .replays import plan_url
from .webhook_health import known_health

State = Problem.State

TONES_OF_PROBLEMS = {State.OPEN: "bad", State.ACKNOWLEDGED: "late", State.RESOLVED: "good"}


@admin.register(Problem)
class ProblemAdmin(ImpactPage, ReadOnlyAdmin, ActingAdmin, ExportingAdmin):
    listed = KNOWN_PROBLEMS
    list_display = ("cause", "state_shown", "count_shown", "last_seen", "target_now", "owner_name", "first_seen")
    exported = {  # noqa: RUF012
        "cause": {"result": "result", "status_code": lambda problem: problem.code or None},
        "state_shown": {"state": "state"},
        "count_shown": {"failed_attempts": "count"},
        "target_now": {
            "webhook_id": "webhook_id",
            "url": "webhook.url",
            "health": lambda problem: known_health(problem.webhook).standing.value,
        },
        "owner_name": {"account": lambda problem: account_of(problem.webhook)},
    }
    fields = (
        "cause",
        "state_shown",
        "target",
        "health",
        "owner_name",
        "count_shown",
        ("first_seen", "last_seen"),
        ("open_since", "resolved"),
        "missed",
        "deliveries",
    )
    table = PROBLEM
    actions = page_actions = (*PROBLEM, "recover")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("webhook__owner", "webhook__health")

    def prepare(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Attach its health to the webhook of each problem."""
        healths = healths_of({problem.webhook_id: problem.webhook for problem in rows}.values())
        for problem in rows:
            problem.webhook.judged = healths[problem.webhook_id]

    def has_button(self, item: Problem, action: str) -> bool:
        if action == "recover":
            missed = self._missed(item)
            return not item.webhook.is_deleted and missed.is_possible
        return super().has_button(item, action)

    # Columns and fields

    cause = column(_("cause"), lambda problem: str(problem.cause))
    owner_name = column(_("account"), lambda problem: shown_account_of(problem.webhook))
    count_shown = column(_("failed attempts"), lambda problem: grouped(problem.count))
    first_seen = time_column("first_seen_at", _("first seen"))
    last_seen = time_column("last_seen_at", _("last seen"))
    open_since = time_column("opened_at", _("open since"))
    resolved = time_column("resolved_at", _("resolved"))

    @admin.display(description=_("state"))
    def state_shown(self, problem: Problem) -> SafeString:
        return in_tone(TONES_OF_PROBLEMS.get(State(problem.state), "open"), problem.get_state_display())

    @admin.display(description=_("webhook"))
    def target(self, problem: Problem) -> SafeString:
        return self.shown_url(problem.webhook)

    @admin.display(description=_("webhook"))
    def target_now(self, problem: Problem) -> SafeString:
        return format_html('{}<div class="webhooks-text">{}</div>', self.target(problem), self.health(problem))

    @admin.display(description=_("the webhook now"))
    def health(self, problem: Problem) -> SafeString | str:
        webhook = problem.webhook
        if webhook.is_deleted:
            return NO_VALUE
        judged = known_health(webhook)
        word, sentence = judged.standing, in_short(webhook, judged)
        state = in_tone(word.tone, word.label)
        return format_html('{} <span class="webhooks-quiet">{}</span>', state, sentence) if sentence else state

    @admin.display(description=_("missed events"))
    def missed(self, problem: Problem) -> SafeString | str:
        counted = self._missed(problem)
        if not counted.number:
            return missed_in_words([counted])
        text = gettext("at least {number} since {moment}") if counted.has_more else gettext("{number} since {moment}")
        return format_html(text, number=grouped(counted.number), moment=moment(counted.since))

    def _missed(self, problem: Problem) -> Missed:
        """Return the events that the webhook has missed since the problem began, whatever their causes are."""
        counted: Missed | None = getattr(problem, "missed_events", None)
        if counted is None:
            since = min(problem.missed_from or problem.opened_at, problem.opened_at) - MARGIN
            counted = replays.count_missed(problem.webhook, since=since)
            problem.missed_events = counted  # type: ignore[attr-defined] # several parts of the page ask
        return counted

    @admin.display(description=_("deliveries"))
    def deliveries(self, problem: Problem) -> SafeString:
        by = {"answer": str(problem.code)} if problem.code else {"result": problem.result}
        url = self.deliveries_url(webhook_id=problem.webhook_id, kind="event", **by)
        return format_html('<a href="{}">{}</a>', url, gettext("Deliveries with an attempt that failed in this way"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        fields = super().get_fields(request, obj)
        return fields if shows_deliveries(request) else [name for name in fields if name != "deliveries"]

    # Actions

    def has_replay_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may(request, REPLAY, obj)

    def described(self, item: Problem) -> str:
        return f"{item.cause}: {item.webhook.url} ({item.pk})"

    @admin.action(description=_("Replay events"), permissions=["replay"])
    def recover(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """Redirect to the replay form, filled in for the events that have not succeeded since."""
        problem = queryset.first()
        if problem is None or queryset.count() > 1 or not self.has_button(problem, "recover"):
            refusal = gettext("Select a single problem whose webhook has missed events.")
            self.message_user(request, refusal, messages.ERROR)
            return None
        return HttpResponseRedirect(plan_url(self, problem.webhook_id, self._missed(problem).since))
