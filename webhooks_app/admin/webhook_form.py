"""Forms of webhooks, their filters, secrets and test events."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..owners import event_types_for
from ..pages.form_fields import SecretField
from ..pages.forms import WebhookOptions
from .owner_fields import Audience, AudienceForm


class WebhookForm(AudienceForm, WebhookOptions):
    """Form of a webhook. Only a new webhook has a field for the secret."""

    new_owner: Any = None
    """Owner of a new webhook if the form has no owner field."""
    visible_types: EventTypeRegistry = registry
    """Event types offered for a new webhook."""

    audience = forms.ChoiceField(
        label=_("Receives the events of"),
        choices=Audience.choices,
        initial=Audience.ONE,
        widget=forms.RadioSelect,
        help_text=_("A webhook for every account belongs to the platform and receives the events of all accounts."),
    )
    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_("16 to 256 characters. Leave empty to generate one. It is shown only once."),
    )

    class Meta(WebhookOptions.Meta):
        fields = ("owner", *WebhookOptions.Meta.fields)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "url" in self.fields:
            self.fields["url"].widget.attrs["class"] = "vURLField"
        is_new = self.instance._state.adding
        if not is_new:
            self.fields.pop("secret", None)
        elif "owner" not in self.fields:
            self.instance.owner = self.new_owner
        self.offer_audience()
        self.offer_types(self.visible_types if is_new else event_types_for(self.instance.owner))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_audience()
        if secret := self.cleaned_data.get("secret"):
            self.instance.secret = secret
        return cleaned
