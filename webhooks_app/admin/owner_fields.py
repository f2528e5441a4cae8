"""Form fields that show owners by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import QuerySet, TextChoices
from django.http import HttpRequest
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from ..exceptions import InvalidOwnerError
from ..operations.rights import Right
from ..owners import owner_rows, owners, parse_key
from .owned import MAX_FOUND, OwnedAdmin, actor_of, manages_all

if TYPE_CHECKING:
    _ModelChoiceField = forms.ModelChoiceField[Any]
else:
    _ModelChoiceField = forms.ModelChoiceField

MAX_SUGGESTED = 50


class OwnerInput(forms.TextInput):
    """A text input that suggests owners by name."""

    template_name = "webhooks_app/widgets/owner_input.html"

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        list_id = f"{context['widget']['attrs'].get('id', name)}_names"
        context["widget"]["attrs"]["list"] = list_id
        field = owners().name_field
        suggested = owner_rows().order_by(field)[:MAX_SUGGESTED]
        return {
            **context,
            "list_id": list_id,
            "suggested": [(getattr(each, field), _label(each)) for each in suggested],
        }


class OwnerNameField(forms.CharField):
    """Field for any owner, by name or primary key. The value is the owner."""

    widget = OwnerInput(attrs={"class": "vTextField", "autocomplete": "off"})

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        found = list(owners().found(text)[:MAX_FOUND])
        if not found:
            raise forms.ValidationError(_("There is no account named “%(name)s”."), params={"name": text})
        if len(found) > 1:
            keys = ", ".join(str(owner.pk) for owner in found)
            message = _("Several accounts are named “%(name)s”. Enter the primary key: %(keys)s.")
            raise forms.ValidationError(message, params={"name": text, "keys": keys})
        return found[0]


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


def owner_field(request: HttpRequest, right: Right, *, required: bool, help_text: Any = "") -> forms.Field:
    """Return a field for the owners for whom the user has the right."""
    if manages_all(request):
        # Not stripped: " 1" is no primary key, here as elsewhere.
        return OwnerNameField(label=_("Account"), required=required, help_text=help_text, strip=False)
    ids = [owner.pk for owner in actor_of(request).owners_for(right)]
    own: QuerySet[Any] = owner_rows().filter(pk__in=ids)
    return OwnerChoiceField(own, label=_("Account"))


class Audience(TextChoices):
    ONE = "one", _("one account")
    EVERY = "every", _("every account")


class AudienceForm(forms.Form):
    """A form for a new row that belongs to one account or to the platform: a choice of its own, not an empty owner.

    A subclass is a ModelForm with the field ``owner``.
    """

    instance: Any
    chooses_audience = False
    """True for staff who may create rows of the platform."""
    names_one: Any = _("Enter an account or choose “every account”.")
    names_none: Any = _("Leave this empty for a webhook of every account, or choose “one account”.")

    audience = forms.ChoiceField(
        label=_("For"), choices=Audience.choices, initial=Audience.ONE, widget=forms.RadioSelect
    )

    def offer_audience(self) -> None:
        """Remove the field for staff who have no choice, and from the forms of existing rows."""
        if not (self.chooses_audience and self.instance._state.adding):
            self.fields.pop("audience", None)

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

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "owner":
            help_text = format_lazy("{} {}", _("Name or primary key."), db_field.help_text)
            return owner_field(request, self.creating, required=not db_field.blank, help_text=help_text)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def has_add_permission(self, request: HttpRequest) -> bool:
        has_owner = manages_all(request) or bool(actor_of(request).owners_for(self.creating))
        return has_owner and super().has_add_permission(request)


def _label(owner: Any) -> str:
    return owners().label(owner)
