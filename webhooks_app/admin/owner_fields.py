"""Form fields that show owners by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, TextChoices
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..exceptions import InvalidOwnerError
from ..operations.rights import Right
from ..owners import owner_rows, owners, parse_key
from ..pages.listing import MAX_ACCOUNTS_FOUND
from .owned import OwnedAdmin, actor_of, manages_all

if TYPE_CHECKING:
    _ModelChoiceField = forms.ModelChoiceField[Any]
else:
    _ModelChoiceField = forms.ModelChoiceField

MAX_SUGGESTED = 50

MAX_TERM = 254
"""Characters of a search: the length of the longest name."""

MIN_PART = 2
"""Characters from which a text is also searched inside names, for which no index helps."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """The first owners whose names contain a text: those that begin with it, then the others."""

    options: Sequence[tuple[str, str]]
    """The name and the label of each."""
    has_more: bool

    @classmethod
    def among(cls, rows: QuerySet[Any], text: str = "") -> Suggestions:
        name = owners().name_field
        ordered, begins, most = rows.order_by(name), {f"{name}__istartswith": text}, MAX_SUGGESTED + 1
        some = list(ordered.filter(**begins if text else {})[:most])
        if len(text) >= MIN_PART and len(some) < most:
            some += ordered.filter(**{f"{name}__icontains": text}).exclude(**begins)[: most - len(some)]
        return cls(
            [(str(getattr(owner, name)), _label(owner)) for owner in some[:MAX_SUGGESTED]],
            has_more=len(some) > MAX_SUGGESTED,
        )

    @property
    def summary(self) -> str:
        number = len(self.options)
        if self.has_more:
            return gettext("The first %(number)d accounts. Type more of the name.") % {"number": number}
        return ngettext("%(number)d account.", "%(number)d accounts.", number) % {"number": number}


class OwnerInput(forms.TextInput):
    """A text input that suggests owners by name: the first ones, and those that match while the user types."""

    template_name = "webhooks_app/widgets/suggesting_input.html"
    rows: QuerySet[Any]

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        list_id = f"{context['widget']['attrs'].get('id', name)}_names"
        context["widget"]["attrs"]["list"] = list_id
        return {**context, "list_id": list_id, "suggested": Suggestions.among(self.rows).options}


class OwnerNameField(forms.CharField):
    """Field for any of these owners, by name or primary key. The value is the owner.

    ``url`` answers searches, as ``OwnableAdmin.owners_view``.
    """

    widget = OwnerInput(attrs={"class": "vTextField", "autocomplete": "off"})

    def __init__(self, *, rows: QuerySet[Any], url: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rows = self.widget.rows = rows
        if url:
            self.widget.attrs["data-owners"] = url

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        named = owners().found(text).order_by().values("pk")
        matching = list(self.rows.filter(pk__in=named).order_by("pk")[:MAX_ACCOUNTS_FOUND])
        if not matching:
            raise forms.ValidationError(_("There is no account named “%(name)s”."), params={"name": text})
        if len(matching) > 1:
            keys = ", ".join(str(owner.pk) for owner in matching)
            message = _("Several accounts are named “%(name)s”. Enter the primary key: %(keys)s.")
            raise forms.ValidationError(message, params={"name": text, "keys": keys})
        return matching[0]


class OwnerChoiceField(_ModelChoiceField):
    """Field for one of a few owners."""

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(parse_key(str(value)) if value not in self.empty_values else value)
        except InvalidOwnerError:
            raise forms.ValidationError(
                self.error_messages["invalid_choice"], code="invalid_choice", params={"value": value}
            ) from None

    def label_from_instance(self, obj: Any) -> str:
        return _label(obj)


class Audience(TextChoices):
    ONE = "one", _("one account")
    EVERY = "every", _("every account")


class AudienceForm(forms.Form):
    """A form for a new row that belongs to one account or to the platform: a choice of its own, not an empty owner.

    A subclass is a ModelForm with the fields ``owner`` and ``audience``.
    """

    instance: Any
    chooses_audience = False
    """True for staff who may create rows of the platform."""
    new_owner: Any = None
    """The owner of a new row if the form has no field for it."""
    names_one: Any = _("Enter an account or choose “every account”.")
    names_none: Any = _("Leave this empty for a webhook of every account, or choose “one account”.")

    def settle_audience(self) -> None:
        """Remove the field for staff who have no choice, and from the forms of existing rows."""
        if not (self.chooses_audience and self.instance._state.adding):
            self.fields.pop("audience", None)
        if self.instance._state.adding and "owner" not in self.fields:
            self.instance.owner = self.new_owner

    @property
    def is_for_every(self) -> bool:
        return bool(self.cleaned_data.get("audience") == Audience.EVERY)

    def check_audience(self) -> None:
        if "audience" not in self.fields or "owner" in self.errors or "audience" in self.errors:
            return
        is_named = self.cleaned_data["owner"] is not None
        if is_named == self.is_for_every:
            self.add_error("owner", self.names_none if is_named else self.names_one)


class OwnableAdmin(OwnedAdmin):
    """Admin whose form has an owner field, unless the user has only one owner."""

    raw_id_fields = ("owner",)
    creating: Right
    """The right that a new row requires."""

    def owner_fields(self, request: HttpRequest) -> list[str]:
        """Return the owner fields of the form for a new row."""
        return [] if not manages_all(request) and self.only_owner(request) is not None else ["owner"]

    def only_owner(self, request: HttpRequest) -> Any:
        """Return the owner for whom the user may create rows if there is only one, otherwise None."""
        own = actor_of(request).owners_for(self.creating)
        return own[0] if len(own) == 1 else None

    def owners_to_choose(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the owners for whom the user may create rows."""
        rows: QuerySet[Any] = owner_rows().all()
        if manages_all(request):
            return rows
        return rows.filter(pk__in=[owner.pk for owner in actor_of(request).owners_for(self.creating)])

    def get_urls(self) -> list[URLPattern]:
        return [self.own_path("owners/", self.owners_view, "owners"), *super().get_urls()]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.new_owner, form.chooses_audience = self.only_owner(request), manages_all(request)
        return form

    def owners_view(self, request: HttpRequest) -> JsonResponse:
        """Return the owners to choose whose names contain ``term``, in the format of Django's autocomplete view."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        self.check_query(request)
        found = Suggestions.among(self.owners_to_choose(request), request.GET.get("term", "").strip()[:MAX_TERM])
        results = [{"id": name, "text": label} for name, label in found.options]
        return JsonResponse({"results": results, "pagination": {"more": found.has_more}, "summary": found.summary})

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name != "owner":
            return super().formfield_for_foreignkey(db_field, request, **kwargs)
        rows = self.owners_to_choose(request)
        if not manages_all(request) and len(rows[: MAX_SUGGESTED + 1]) <= MAX_SUGGESTED:
            return OwnerChoiceField(rows, label=_("Account"))
        return OwnerNameField(
            rows=rows,
            url=self.url(f"{self.opts.model_name}_owners"),
            label=_("Account"),
            required=not (manages_all(request) and db_field.blank),
            help_text=format_lazy("{} {}", _("Name or primary key."), db_field.help_text),
            strip=False,  # " 1" is no primary key, here as elsewhere
        )

    def has_add_permission(self, request: HttpRequest) -> bool:
        has_owner = manages_all(request) or bool(actor_of(request).owners_for(self.creating))
        return has_owner and super().has_add_permission(request)


def _label(owner: Any) -> str:
    return owners().label(owner)
