"""Forms of webhooks, their filters, secrets and test events."""

from __future__ import annotations

import json
from typing import Any, ClassVar, cast

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..exceptions import InvalidEventDataError
from ..models import Webhook
from ..owners import event_types_for
from .form_fields import BoundedJSONField, ChoiceFields, SecretField, without_reordering
from .owner_fields import Audience, AudienceForm
from .reasons import translated
from .refusals import RefusableForm

NOT_SAVED = ("headers", "basic_auth", "basic_password", "removes_signatures")
"""Fields that are not columns of a webhook."""

Choices = list[tuple[str, list[tuple[str, str]]]]


def event_type_choices(event_types: EventTypeRegistry) -> Choices:
    """Return event types as grouped choices of a form field."""
    return [
        (group or str(_("Other")), [(each.name, each.name) for each in members])
        for group, members in event_types.groups().items()
    ]


class GroupedCheckboxes(forms.CheckboxSelectMultiple):
    """Grouped check boxes with the description of each event type."""

    template_name = "webhooks_app/widgets/grouped_checkboxes.html"

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["description"] = gettext(registry.get(value).description) if value in registry else ""
        return option


class CodeArea(forms.Textarea):
    """A text area for JSON, empty for null."""

    def __init__(self, rows: int = 8) -> None:
        super().__init__({"rows": rows, "class": "vLargeTextField webhooks-code", "spellcheck": "false"})

    def format_value(self, value: Any) -> str | None:
        return "" if value == "null" else super().format_value(value)


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


class TryFilterForm(forms.Form):
    """A past event and the filter to evaluate on it."""

    event_id = forms.CharField(
        label=_("Event"),
        max_length=40,
        widget=forms.TextInput(attrs={"class": "vTextField", "placeholder": "evt_…", "spellcheck": "false"}),
        help_text=_("ID of an event (evt_…)."),
    )
    filter = BoundedJSONField(
        label=_("Filter"),
        required=False,
        widget=CodeArea,
        help_text=_("Not saved. Copy the filter to the webhook when you are satisfied with it."),
    )


class TestEventForm(forms.Form):
    """Type and data of a test event."""

    event_type = forms.ChoiceField(label=_("Event type"))
    event_data = forms.CharField(
        label=_("Data"),
        required=False,
        widget=CodeArea(rows=12),
        help_text=_("A JSON object that matches the event type. Leave empty to send the example of the type."),
    )

    def __init__(self, *args: Any, event_types: EventTypeRegistry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.event_types = event_types
        event_type = cast("forms.ChoiceField", self.fields["event_type"])
        event_type.choices = event_type_choices(event_types)
        event_type.widget.attrs["data-examples"] = "examples"
        self.fields["event_data"].widget.attrs["data-example"] = ""

    @classmethod
    def with_example(cls, event_type: str, *, event_types: EventTypeRegistry) -> TestEventForm:
        """Return the form filled with the example of a type, or of the first type if it is not offered."""
        name = event_type if event_type in event_types else next(iter(event_types.names()), "")
        form = cls(event_types=event_types)
        form.initial = {"event_type": name, "event_data": form.examples().get(name, "")}
        return form

    def examples(self) -> dict[str, str]:
        """Return the example of each offered type as indented JSON."""
        return {found.name: json.dumps(found.example, indent=2, ensure_ascii=False) for found in self.event_types}

    def clean_event_data(self) -> dict[str, Any] | None:
        text = self.cleaned_data["event_data"]
        event_type = self.cleaned_data.get("event_type")
        if not text.strip() or event_type is None:
            return None
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(_("Invalid JSON: %(error)s"), params={"error": error}) from None
        if not isinstance(data, dict):
            raise forms.ValidationError(_("Enter a JSON object in braces."))
        try:
            registry.get(event_type).validate(data)
        except InvalidEventDataError as error:
            problems = [f"{path or 'data'}: {translated(problem)}." for path, problem in error.errors.items()]
            raise forms.ValidationError(problems) from None
        return data
