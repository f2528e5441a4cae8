"""Forms of webhooks and API keys."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry
from ..models import ApiKey
from ..owners import event_types_for
from ..pages.form_fields import ExpiryField, SecretField
from ..pages.forms import GroupedCheckboxes, WebhookOptions, event_type_choices
from ..pages.shown_once import new_submission


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


class SettingsForm(WebhookOptions):
    field_order = (
        *("url", "event_types", "description", "filter", "retry_policy", "accepted_statuses", "order"),
        *("retry_notices", "max_in_flight", "rate_limit", "signatures", "removes_signatures"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["max_in_flight"].help_text = _("Maximum number of requests at a time. Empty for the default.")
        self.offer_types(event_types_for(self.instance.owner))


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
