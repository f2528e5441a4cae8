"""The audit log: the list of its entries, and the history of a row. Users see the entries of their own owners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import AuditEntry
from ..owners import owners
from ..pages.display import NO_VALUE
from ..pages.lists import AUDIT, MODELS
from .display import time_column
from .export import ExportingAdmin
from .owned import OwnedAdmin, ReadOnlyAdmin, actor_of, as_shown, manages_all

MAX_CHANGES_LENGTH = 120

MAX_LISTED_ENTRIES = 50


class Change(NamedTuple):
    """A changed field with its values as text."""

    name: str
    before: str
    after: str
    is_first: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.after}" if self.is_first else f"{self.name}: {self.before} → {self.after}"


class HistoryRow(NamedTuple):
    entry: AuditEntry
    by: str
    changes: list[Change]


def with_actor_names(request: HttpRequest, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """Return the entries with the actor's name (``by``) and the permission to name the owner (``names_owner``).

    Users who do not manage all webhooks see only their own name and those of their owners.
    """
    names: dict[str, Any] = {"by": F("actor_name"), "names_owner": Value(True)}
    if not manages_all(request):
        names["by"] = Case(When(actor=request.user.pk, then=names["by"]), default=Value(""))
        is_own = Q(owner__in=actor_of(request).owner_ids)
        names["names_owner"] = Case(When(is_own, then=Value(True)), default=Value(False))
    return entries.select_related("owner").annotate(**names)


def changes_of(entry: Any) -> list[Change]:
    """Return the changes of an entry from ``with_actor_names()``."""
    model = MODELS.get(entry.subject.partition("_")[0])
    changes = []
    for name, values in entry.changes.items():
        field = _field(model, name)
        before, after = (
            _account(entry, value) if name == "owner_id" else _text(_choice(field, value)) for value in values
        )
        changes.append(Change(_label(field, name), before, after, is_first=values[0] is None))
    return changes


def stored_changes_of(entry: Any) -> list[dict[str, Any]]:
    """Return the changes of an entry from ``with_actor_names()`` as they are stored, the same in every language.

    An account that the user may not name is ``"hidden"``.
    """
    return [
        {"field": name, "before": _stored(entry, name, before), "after": _stored(entry, name, after)}
        for name, (before, after) in entry.changes.items()
    ]


def _stored(entry: Any, name: str, value: Any) -> Any:
    return value if name != "owner_id" or value is None else _named(entry, value) or "hidden"


class AuditedAdmin(OwnedAdmin):
    """Admin whose history page shows the audit log of the row."""

    object_history_template = "admin/webhooks_app/history.html"

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        subject = unquote(object_id)
        views_log = request.user.has_perm("webhooks_app.view_auditentry")
        context = {
            "title": gettext("Audit log"),
            "rows": self._history(request, subject),
            "all_url": self.url("auditentry_changelist", q=subject) if views_log else "",
            "media": self.media,
        }
        return super().history_view(request, object_id, {**context, **(extra_context or {})})

    def _history(self, request: HttpRequest, subject: str) -> Iterator[HistoryRow]:
        """Yield the latest entries lazily, so that nothing is read before the permission check."""
        about = as_shown(request, AuditEntry.objects.filter(subject=subject))
        entries: Any = with_actor_names(request, about).order_by("-pk")
        for entry in entries[:MAX_LISTED_ENTRIES]:
            yield HistoryRow(entry, entry.by, changes_of(entry))


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin, ExportingAdmin):
    listed = AUDIT
    list_display = ("created", "action", "subject_link", "owner_name", "by_and_via", "changed")
    exported = {  # noqa: RUF012
        "subject_link": {"subject": "subject"},
        "by_and_via": {"by": "by", "via": "via"},
        "changed": {"changes": stored_changes_of},
    }
    list_select_related = ("owner",)
    fields = ("own_id", "created", "action", "subject_link", "owner_name", "by_and_via", "reason")
    change_form_template = "admin/webhooks_app/auditentry/change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return with_actor_names(request, super().get_queryset(request))

    def page_context(self, request: HttpRequest, item: AuditEntry) -> dict[str, Any]:
        return {"changes": changes_of(item)}

    created = time_column("created_at", _("time"))

    @admin.display(description=_("subject"))
    def subject_link(self, entry: AuditEntry) -> SafeString | str:
        model = MODELS.get(entry.subject.partition("_")[0])
        if model is None or not self.admin_site.is_registered(model):
            return entry.subject
        return self.link_to(model(pk=entry.subject))

    @admin.display(description=_("by"))
    def by_and_via(self, entry: Any) -> str:
        return ", ".join(filter(None, (entry.by, str(entry.get_via_display()))))

    @admin.display(description=_("changes"))
    def changed(self, entry: AuditEntry) -> SafeString:
        text = Truncator("; ".join(map(str, changes_of(entry)))).chars(MAX_CHANGES_LENGTH)
        return format_html('<span class="webhooks-text">{}</span>', text)


def _field(model: Any, name: str) -> Any:
    try:
        return model._meta.get_field(name)
    except (AttributeError, FieldDoesNotExist):
        return None


def _label(field: Any, name: str) -> str:
    return str(getattr(field, "verbose_name", name.replace("_", " ")))


def _choice(field: Any, value: Any) -> Any:
    """Return the label of a choice, and any other value unchanged."""
    return dict(getattr(field, "flatchoices", ())).get(value, value) if isinstance(value, str) else value


def _account(entry: Any, pk: Any) -> str:
    if pk is None:
        return _text(pk)
    return _named(entry, pk) or gettext("an account")


def _named(entry: Any, pk: Any) -> str | None:
    """Return the name of the account with this key, None if the user may not name it."""
    is_current = entry.names_owner and entry.owner is not None and str(entry.owner_id) == str(pk)
    return owners().label(entry.owner) if is_current else None


def _text(value: Any) -> str:
    if value is None or value == "":
        return NO_VALUE
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
