"""Forms of webhooks and API keys."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry
from ..models import ApiKey, Webhook
from ..owners import event_types_for
from ..pages.form_fields import BoundedJSONField, ChoiceFields, ExpiryField, SecretField, without_reordering
from ..pages.forms import CodeArea, GroupedCheckboxes, event_type_choices
from ..pages.refusals import RefusableForm
from ..pages.shown_once import new_submission

NOT_SAVED = ("headers", "basic_auth", "basic_password", "removes_signatures")
"""Fields that are not columns of a webhook."""


class NewWebhookForm(forms.Form):
    url = forms.CharField(
        label=_("URL"),
        max_length=2048,
        widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text=_("The address of your receiver. A request is sent there at once, to verify it."),
    )
    event_types = forms.MultipleChoiceField(label=_("Event types"), widget=GroupedCheckboxes)
    description = forms.CharField(
        label=_("Description"), max_length=200, required=False, help_text=_("For your own use.")
    )
    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=_("16 to 256 characters. Leave empty to generate one. It is shown only once."),
    )
    submission = forms.CharField(required=False, widget=forms.HiddenInput, initial=new_submission)

    def __init__(self, *args: Any, event_types: EventTypeRegistry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["event_types"].choices = event_type_choices(event_types)  # type: ignore[attr-defined]

    @property
    def arguments(self) -> dict[str, Any]:
        """The values as arguments of ``register_webhook``."""
        given = {name: self.cleaned_data[name] for name in ("url", "event_types", "description")}
        return {**given, "secret": self.cleaned_data["secret"] or None}


class SettingsForm(ChoiceFields, RefusableForm):
    event_types = forms.MultipleChoiceField(label=_("Event types"), widget=GroupedCheckboxes)

    field_order = ("url", "event_types", "description", "filter")

    class Meta:
        model = Webhook
        fields = (
            *("url", "event_types", "description", "filter", "retry_notices", "max_in_flight", "rate_limit"),
            *("signatures", "retry_policy", "accepted_statuses", "order"),
        )
        widgets: ClassVar[dict[str, Any]] = {"filter": CodeArea()}
        field_classes: ClassVar[dict[str, Any]] = {"filter": BoundedJSONField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["url"].strip = False  # type: ignore[attr-defined]  # stored exactly as entered
        self.fields["max_in_flight"].help_text = _("Maximum number of requests at a time. Empty for the default.")
        offered = event_types_for(self.instance.owner)
        retired = [(name, name) for name in self.instance.event_types if name not in offered]
        choices = event_type_choices(offered)
        if retired:
            choices.append((str(_("No longer in the catalogue")), retired))
        self.fields["event_types"].choices = choices  # type: ignore[attr-defined]
        self.offer_choices(self.instance)
        self._headers_before = dict(self.instance.headers)

    def clean_event_types(self) -> list[str]:
        return without_reordering(self.cleaned_data["event_types"], list(self.instance.event_types))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_removed_signatures()
        return cleaned

    @property
    def changes(self) -> dict[str, Any]:
        """The values of the changed fields as arguments of ``update_webhook``."""
        unchanged = (*NOT_SAVED, "signatures") if self.selects_no_signature else NOT_SAVED
        fields = [name for name in self.changed_data if name not in unchanged]
        return {**{name: self.cleaned_data[name] for name in fields}, **self.header_changes(self._headers_before)}


class ApiKeyForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=100, help_text=_("The program or person that uses the key."))
    scopes = forms.MultipleChoiceField(label=_("Scopes"), widget=forms.CheckboxSelectMultiple)
    expires_at = ExpiryField()
    submission = forms.CharField(required=False, widget=forms.HiddenInput, initial=new_submission)

    def __init__(self, *args: Any, scopes: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scopes"].choices = [  # type: ignore[attr-defined]
            (name, f"{name}: {label}") for name, label in ApiKey.Scope.choices if name in scopes
        ]

    @property
    def arguments(self) -> dict[str, Any]:
        """The values as arguments of ``create_key``."""
        return {name: self.cleaned_data[name] for name in ("name", "scopes", "expires_at")}
