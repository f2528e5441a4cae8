"""The audit log of webhooks, keys, deliveries, replays and problems, written in the transaction of the action.

Entries outlive their subject and its account. They never contain secrets, header values or bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.conf import settings as django_settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from ..database.clock import now
from ..protocol.ids import new_ordered_id
from ..protocol.json_data import format_time
from ..reasons import clipped
from .base import BaseModel, BaseQuerySet
from .disclosure import UNREACHABLE_MESSAGES
from .fields import CompactJSONField, CurrentForeignKey, IdField, OwnerField, ReasonField
from .status import MAX_REASON_LENGTH

MAX_ACTOR_NAME_LENGTH = 150

Changes = Mapping[str, Any]
"""A list of the old and the new value by field name."""


class Action(models.TextChoices):
    """The audited actions, named ``<subject>.<action>``."""

    WEBHOOK_CREATED = "webhook.created", _("webhook created")
    WEBHOOK_CHANGED = "webhook.changed", _("webhook changed")
    WEBHOOK_DELETED = "webhook.deleted", _("webhook deleted")
    WEBHOOK_PAUSED = "webhook.paused", _("webhook paused")
    WEBHOOK_RESUMED = "webhook.resumed", _("webhook resumed")
    WEBHOOK_DISABLED = "webhook.disabled", _("webhook disabled")
    WEBHOOK_ENABLED = "webhook.enabled", _("webhook enabled")
    VERIFICATION_STARTED = "webhook.verification_started", _("verification started")
    WEBHOOK_VERIFIED = "webhook.verified", _("verification passed")
    VERIFICATION_FAILED = "webhook.verification_failed", _("verification failed")
    SECRET_ROTATED = "webhook.secret_rotated", _("secret rotated")
    SECRET_PREPARED = "webhook.secret_prepared", _("new secret prepared")
    SECRET_ACTIVATED = "webhook.secret_activated", _("new secret activated")
    SECRET_WITHDRAWN = "webhook.secret_withdrawn", _("new secret withdrawn")
    PREVIOUS_SECRET_REVOKED = "webhook.previous_secret_revoked", _("old secret expired")
    WEBHOOK_TESTED = "webhook.tested", _("test event sent")
    DELIVERY_REDELIVERED = "delivery.redelivered", _("delivery redelivered")
    DELIVERY_RETRIED = "delivery.retried", _("delivery retried by hand")
    REPLAY_PLANNED = "replay.planned", _("replay planned")
    REPLAY_STARTED = "replay.started", _("replay started")
    REPLAY_PAUSED = "replay.paused", _("replay paused")
    REPLAY_RESUMED = "replay.resumed", _("replay resumed")
    REPLAY_CANCELLED = "replay.cancelled", _("replay cancelled")
    PROBLEM_ACKNOWLEDGED = "problem.acknowledged", _("problem acknowledged")
    PROBLEM_IGNORED = "problem.ignored", _("problem ignored")
    PROBLEM_REOPENED = "problem.reopened", _("problem reopened")
    KEY_CREATED = "api_key.created", _("API key created")
    KEY_CHANGED = "api_key.changed", _("API key changed")
    KEY_REVOKED = "api_key.revoked", _("API key revoked")
    KEY_DELETED = "api_key.deleted", _("API key deleted")
    MAILS_CHANGED = "mails.changed", _("choice of mails changed")
    LIST_EXPORTED = "list.exported", _("list exported")
    LINK_CREATED = "portal_link.created", _("link to the customers' pages created")
    LINK_OPENED = "portal_link.opened", _("link to the customers' pages opened")
    LINK_REVOKED = "portal_link.revoked", _("link to the customers' pages revoked")


class Via(models.TextChoices):
    """The origin of an action."""

    CONSOLE = "console", _("console")
    API = "api", _("API")
    PORTAL = "portal", _("the customers' pages")
    LINK = "link", _("a link to the customers' pages")
    COMMAND = "command", _("command")
    CODE = "code", _("the project's code")
    SYSTEM = "system", _("the service")


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """The originator of an action, with its way. ``name`` overrides the account's. Operations use a subclass."""

    via: str = Via.CODE
    account: Any = None
    name: str = ""

    @property
    def known_as(self) -> str:
        if self.name or self.account is None:
            return self.name[:MAX_ACTOR_NAME_LENGTH]
        return str(self.account.get_username())[:MAX_ACTOR_NAME_LENGTH]


CODE = Actor()
SYSTEM = Actor(via=Via.SYSTEM)

_actor: ContextVar[Actor] = ContextVar("webhooks_app_actor", default=CODE)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Attribute the entries written within the block, in this thread or task, to an actor."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


class AuditEntryQuerySet(BaseQuerySet["AuditEntry"]):
    def about(self, subject: models.Model) -> Self:
        return self.filter(subject=subject.pk)

    def for_owner(self) -> Self:
        """Return the entries without those whose time would reveal how long an unreachable URL took."""
        return self.exclude(action=Action.VERIFICATION_FAILED, reason__in=UNREACHABLE_MESSAGES)

    def write(self, action: str, subject: Any, *, owner_id: Any, changes: Changes, reason: str = "") -> None:
        """Create an entry for an action on a row, in the transaction of the action."""
        entries = self.using(subject._state.db)
        entries.record(action, subject.pk, owner_id=owner_id, changes=changes, reason=reason)

    def record(self, action: str, subject: str, *, owner_id: Any, changes: Changes, reason: str = "") -> AuditEntry:
        """Create an entry about a subject that may have no row."""
        actor = _actor.get()
        return self.create(
            id=new_ordered_id("aud", moment := now()),  # ordered even within one millisecond
            created_at=moment,
            action=action,
            subject=subject,
            owner_id=owner_id,
            actor_id=getattr(actor.account, "pk", None),
            actor_name=actor.known_as,
            via=actor.via,
            changes=changes,
            reason=clipped(reason, MAX_REASON_LENGTH),
        )


class AuditEntry(BaseModel):
    id = IdField(prefix="aud")
    action = models.CharField(_("action"), max_length=40, choices=Action, editable=False)
    subject = models.CharField(_("subject"), max_length=40, editable=False)
    # No constraints in the database, or a worker would wait for transactions that lock an account.
    owner = OwnerField(
        verbose_name=_("account"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    actor = CurrentForeignKey(
        django_settings.AUTH_USER_MODEL,
        verbose_name=_("account"),
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        db_constraint=False,
    )
    actor_name = models.CharField(_("by"), max_length=MAX_ACTOR_NAME_LENGTH, blank=True, editable=False)
    via = models.CharField(_("channel"), max_length=10, choices=Via, editable=False)
    changes = CompactJSONField(_("changes"), default=dict, editable=False)
    reason = ReasonField(_("reason"), max_length=MAX_REASON_LENGTH, blank=True, editable=False)
    created_at = models.DateTimeField(_("time"), default=now, editable=False)

    objects = AuditEntryQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        default_permissions = ("view",)
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("subject", "-id"), name="webhooks_audit_subject"),
            models.Index(fields=("owner", "-id"), name="webhooks_audit_owner"),
            models.Index(fields=("subject", "action", "id"), name="webhooks_audit_action"),
        )

    def __str__(self) -> str:
        return f"{self.subject}: {self.get_action_display()}"

    def name_for(self, account: Any) -> str:
        """Return the actor's name for a user of the owner. API keys belong to the owner. Staff remain anonymous."""
        is_self = self.actor_id is not None and self.actor_id == getattr(account, "pk", None)
        return self.actor_name if is_self or self.via == Via.API else ""


class Audited(BaseModel):
    """A model with audited changes. Entries contain the values of ``audited_fields``."""

    audited_fields: ClassVar[tuple[str, ...]] = ()

    class Meta:
        abstract = True

    if TYPE_CHECKING:
        owner_id: Any

    def audited_values(self) -> dict[str, Any]:
        return {name: _as_json(getattr(self, name)) for name in self.audited_fields}

    def audit(self, action: str, changes: Changes | None = None, *, reason: str = "") -> None:
        """Create an audit entry for this row."""
        AuditEntry.objects.write(action, self, owner_id=self.owner_id, changes=changes or {}, reason=reason)

    def audit_creation(self, action: str) -> None:
        """Create an audit entry for the creation of this row, with its values."""
        values = self.audited_values().items()
        self.audit(action, {name: [None, value] for name, value in values if value not in (None, "")})

    @contextmanager
    def auditing(self, action: str, *, reason: str = "", since: Audited | None = None) -> Iterator[None]:
        """Create an audit entry for the changes to this row within the block, in the same transaction.

        ``since`` is the saved row, if this instance was changed before the block. There is then no entry without a
        change.
        """
        before = (since or self).audited_values()
        yield
        after = self.audited_values()
        changes = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
        if changes or since is None:
            self.audit(action, changes, reason=reason)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_time(value)
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)
