"""Forms of all pages: choices of event types, filters to try, test events."""

from __future__ import annotations

import json
from typing import Any, cast

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry, registry
from ..exceptions import InvalidEventDataError
from .form_fields import BoundedJSONField
from .reasons import translated

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
