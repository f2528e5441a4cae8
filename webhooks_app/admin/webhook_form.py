"""Forms of webhooks, their filters, secrets and test events."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..models import Webhook
from ..owners import event_types_for
from ..pages.form_fields import BoundedJSONField, ChoiceFields, SecretField, without_reordering
from ..pages.forms import CodeArea, GroupedCheckboxes, event_type_choices
from ..pages.refusals import RefusableForm
from .owner_fields import Audience, AudienceForm

NOT_SAVED = ("headers", "basic_auth", "basic_password", "removes_signatures")
"""Fields that are not columns of a webhook."""


class WebhookForm(ChoiceFields, AudienceForm, RefusableForm):
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
    event_types = forms.MultipleChoiceField(label=_("Event types"), widget=GroupedCheckboxes)
    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_("16 to 256 characters. Leave empty to generate one. It is shown only once."),
    )

    class Meta:
        model = Webhook
        fields = (
            "owner",
            "url",
            "event_types",
            "filter",
            "description",
            "retry_notices",
            "max_in_flight",
            "rate_limit",
            "signatures",
            "retry_policy",
            "accepted_statuses",
            "order",
        )
        widgets: ClassVar[dict[str, Any]] = {"filter": CodeArea()}
        field_classes: ClassVar[dict[str, Any]] = {"filter": BoundedJSONField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (url := self.fields.get("url")) is not None:
            url.widget.attrs["class"] = "vURLField"
            url.strip = False  # type: ignore[attr-defined]  # stored exactly as entered
        if not self.instance._state.adding:
            self.fields.pop("secret", None)
        elif "owner" not in self.fields:
            self.instance.owner = self.new_owner
        self.offer_audience()
        self._offer_types()
        self.offer_choices(self.instance)
        self.explain_choices(self.instance)
        self._headers_before = dict(self.instance.headers)

    def clean_event_types(self) -> list[str]:
        return without_reordering(self.cleaned_data["event_types"], list(self.instance.event_types))

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_audience()
        self.check_removed_signatures()
        if secret := self.cleaned_data.get("secret"):
            self.instance.secret = secret
        return cleaned

    @property
    def changes(self) -> dict[str, Any]:
        """Values of the changed fields."""
        fields = [name for name in self.changed_data if name not in NOT_SAVED]
        return {**{name: self.cleaned_data[name] for name in fields}, **self.header_arguments}

    @property
    def header_arguments(self) -> dict[str, Any]:
        """Changed headers and credentials as arguments of operations."""
        return self.header_changes(self._headers_before)

    def _offer_types(self) -> None:
        """Offer the event types visible to the owner, and the webhook's types that left the catalogue."""
        field = self.fields.get("event_types")
        if not isinstance(field, forms.MultipleChoiceField):
            return
        visible = self.visible_types if self.instance._state.adding else event_types_for(self.instance.owner)
        choices = event_type_choices(visible)
        retired = [name for name in self.instance.event_types if name not in visible]
        if retired:
            choices.append((str(_("No longer in the catalogue")), [(name, name) for name in retired]))
        field.choices = choices
