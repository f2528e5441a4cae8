"""Problems: failed attempts of one webhook with the same result and status code, and what people decided about them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, NamedTuple, Self

from django.db import connections, models
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

from ..database.sql import upsert
from ..exceptions import AlreadyInStateError, WebhookStateError
from ..reasons import ReasonText
from .attempt import DeliveryAttempt
from .audit import Action, Audited
from .base import BaseQuerySet, atomic
from .fields import CurrentForeignKey, IdField, PartialIndex
from .webhook import Webhook

SETTLED_AFTER = timedelta(minutes=5)
"""Time without the failure after which a success resolves a problem, so that a rare failure stays one problem."""

MOST_OF_WEBHOOK = 20
"""Problems of one webhook that are told apart by their status codes. A receiver can answer with any code."""

SEEN = ("state", "count", "last_seen_at", "opened_at", "succeeded_at", "resolved_at", "missed_from")
"""Fields that change when attempts fail or succeed."""


class Cause(NamedTuple):
    result: str
    code: int = 0
    """The status of the answer; 0 without one, or if it is not known."""

    def __str__(self) -> str:
        """Return the status in words, such as ``503 Service Unavailable``, or the result if there is no status."""
        if self.result in UNATTEMPTED:
            return gettext(UNATTEMPTED[self.result])
        if not self.code:
            return str(dict(DeliveryAttempt.Result.choices).get(self.result, self.result))
        if self.code in STATUSES:
            return f"{self.code} {HTTPStatus(self.code).phrase}"
        return gettext("Status %(code)d") % {"code": self.code}


STATUSES = frozenset(HTTPStatus)

UNATTEMPTED = {
    "cancelled": gettext_noop("Cancelled before an attempt"),
    "missed": gettext_noop("Not queued, because the webhook was stopped"),
}
"""The causes of events that were missed without an attempt."""


class ProblemQuerySet(BaseQuerySet["Problem"]):
    owner_path = "webhook__owner"

    def unresolved(self) -> Self:
        """Return the problems that await a success: open and acknowledged ones."""
        return self.filter(state__in=UNRESOLVED)

    def lists_unresolved(self) -> bool:
        """Return True if an index has just the unresolved problems."""
        return connections[self.db].features.supports_partial_indexes

    def save_seen(self, problems: Sequence[Problem]) -> None:
        """Save what was seen of these problems, new or locked."""
        if problems:
            upsert(self, problems, unique=("webhook", "result", "code"), update=SEEN)

    def resolve(self, now: datetime) -> int:
        """Resolve the problems with a success that have not been seen again for some time. Return their number."""
        quiet = self.unresolved().filter(succeeded_at__isnull=False, last_seen_at__lte=now - SETTLED_AFTER)
        return quiet.update(state=Problem.State.RESOLVED, resolved_at=now)


class Problem(Audited):
    """Written by maintenance, beside delivery. The methods of people expect that the caller has locked the row."""

    audited_fields = ("state",)

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ACKNOWLEDGED = "acknowledged", _("acknowledged")
        IGNORED = "ignored", _("ignored")
        RESOLVED = "resolved", _("resolved")

    id = IdField(prefix="prb")
    webhook = CurrentForeignKey(
        Webhook,
        verbose_name=_("webhook"),
        editable=False,
        on_delete=models.CASCADE,
        related_name="problems",
        db_constraint=False,  # a fold must not wait for a claim
        db_index=False,
    )
    result = models.CharField(_("result"), max_length=20, choices=DeliveryAttempt.Result.choices, editable=False)
    code = models.PositiveSmallIntegerField(
        _("status code"), default=0, editable=False, help_text=_("0 without an answer.")
    )
    state = models.CharField(_("state"), max_length=12, choices=State.choices, default=State.OPEN, editable=False)
    count = models.PositiveBigIntegerField(_("failed attempts"), default=0, editable=False)
    first_seen_at = models.DateTimeField(_("first seen"), editable=False)
    last_seen_at = models.DateTimeField(_("last seen"), editable=False)
    opened_at = models.DateTimeField(
        _("open since"), editable=False, help_text=_("Time of the first failure, or of the first one after a success.")
    )
    succeeded_at = models.DateTimeField(
        _("succeeded"), null=True, editable=False, help_text=_("Time of the first success after the last failure.")
    )
    resolved_at = models.DateTimeField(_("resolved"), null=True, editable=False)
    missed_from = models.DateTimeField(
        _("missed from"), null=True, editable=False, help_text=_("Creation time of the oldest event given up with it.")
    )

    objects = ProblemQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("problem")
        verbose_name_plural = _("problems")
        ordering = ("-id",)
        default_permissions = ("view", "change")
        constraints = (models.UniqueConstraint(fields=("webhook", "result", "code"), name="webhooks_problem_unique"),)
        indexes = (
            models.Index(fields=("last_seen_at",), name="webhooks_problem_seen"),
            PartialIndex(
                fields=("-id",),
                only=models.Q(state__in=("open", "acknowledged")),
                otherwise=("state", "-id"),
                name="webhooks_problem_unresolved",
            ),
            models.Index(fields=("webhook", "-id"), name="webhooks_problem_webhook"),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.cause})"

    @property
    def cause(self) -> Cause:
        return Cause(self.result, self.code)

    @property
    def owner_id(self) -> Any:
        return self.webhook.owner_id

    @property
    def created_at(self) -> datetime:
        return self.first_seen_at

    def note_failures(self, number: int, at: datetime, missed_from: datetime | None) -> None:
        """Count failed attempts. A resolved problem opens again."""
        if self.state == self.State.RESOLVED:
            self.state, self.opened_at, self.resolved_at = self.State.OPEN, at, None
        self.count += number
        self.last_seen_at, self.succeeded_at = max(self.last_seen_at, at), None
        if missed_from is not None:
            self.missed_from = min(self.missed_from or missed_from, missed_from)

    def note_success(self, at: datetime) -> bool:
        """Record the first success after the last failure. Return True if it is the first."""
        if self.succeeded_at is not None or at <= self.last_seen_at:
            return False
        self.succeeded_at = at
        return True

    def lock(self) -> None:
        """Lock the webhook and the problem until the end of a transaction of ``writing()``, and reload them.

        The webhook is locked first, as everywhere. Raise WebhookStateError if the problem is no longer kept.
        """
        self.webhook.lock()
        saved = self.lock_saved()
        if saved is None:
            raise WebhookStateError(ReasonText("problem_not_kept", id=self.id))
        self.adopt(saved)

    def acknowledge(self) -> None:
        """Mark the problem as known until it is resolved. Raise WebhookStateError if it already is."""
        self._decide(self.State.ACKNOWLEDGED, Action.PROBLEM_ACKNOWLEDGED)

    def ignore(self) -> None:
        """Mark the problem as unimportant. Further failures are counted, and do not open it again."""
        self._decide(self.State.IGNORED, Action.PROBLEM_IGNORED)

    def reopen(self) -> None:
        """Undo an acknowledgement, or stop ignoring. Raise WebhookStateError for a resolved problem."""
        self._decide(self.State.OPEN, Action.PROBLEM_REOPENED)

    def require_before(self, state: State) -> None:
        """Raise AlreadyInStateError for a problem in this state, WebhookStateError if it cannot get there.

        A resolved problem can only be ignored.
        """
        if self.state == state:
            raise AlreadyInStateError(ReasonText(f"problem_already_{state.value}", id=self.id))
        if self.state == self.State.RESOLVED and state != self.State.IGNORED:
            raise WebhookStateError(ReasonText("problem_resolved", id=self.id))

    @atomic
    def _decide(self, state: State, action: str) -> None:
        self.require_before(state)
        with self.auditing(action):
            self.state, self.resolved_at = state, None
            self.save(update_fields=["state", "resolved_at"])


UNRESOLVED = (Problem.State.OPEN, Problem.State.ACKNOWLEDGED)
