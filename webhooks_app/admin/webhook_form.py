"""Forms about webhooks."""

from __future__ import annotations

import json
from typing import Any, ClassVar, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from ..encryption import Masked
from ..event_types import EventTypeRegistry, registry
from ..exceptions import InvalidEventDataError
from ..models import Webhook
from ..models.visibility import event_types_for
from .choice_fields import ChoiceFields
from .owner_fields import Audience, AudienceForm
from .refusals import RefusableForm

Choices = list[tuple[str, list[tuple[str, str]]]]


def event_type_choices(event_types: EventTypeRegistry = registry) -> Choices:
    """Return these event types, by default all, as grouped choices of a form field."""
    return [
        (group or str(_("Other")), [(each.name, each.name) for each in members])
        for group, members in event_types.groups().items()
    ]


class GroupedCheckboxes(forms.CheckboxSelectMultiple):
    """Check boxes in their groups, each with what its event type means."""

    template_name = "webhooks_app/widgets/grouped_checkboxes.html"

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["description"] = registry.get(value).description if value in registry else ""
        return option


class SecretField(forms.CharField):
    """A secret to be typed: a refused form is shown without it."""

    def to_python(self, value: Any) -> str:
        return Masked(super().to_python(value))

    def bound_data(self, data: Any, initial: Any) -> None:
        return None


class CodeArea(forms.Textarea):
    """A text area for JSON."""

    def __init__(self, rows: int = 8) -> None:
        super().__init__({"rows": rows, "class": "vLargeTextField webhooks-code", "spellcheck": "false"})


class WebhookForm(ChoiceFields, AudienceForm, RefusableForm):
    """A webhook with its event types as check boxes, and its secret while it is made."""

    new_owner: Any = None
    """The owner of a new webhook, if the form does not ask for it."""
    visible_types: EventTypeRegistry = registry
    """The event types of a new webhook."""

    audience = forms.ChoiceField(
        label=_("Receives the events of"),
        choices=Audience.choices,
        initial=Audience.ONE,
        widget=forms.RadioSelect,
        help_text=_("A webhook for every account is the platform's own, whoever is named in its events."),
    )
    event_types = forms.MultipleChoiceField(
        label=_("Event types"), choices=event_type_choices, widget=GroupedCheckboxes
    )
    secret = SecretField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_("16 to 256 characters. Leave it empty to have one made. It is shown once."),
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
        )
        widgets: ClassVar[dict[str, Any]] = {"filter": CodeArea()}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (url := self.fields.get("url")) is not None:
            url.widget.attrs["class"] = "vURLField"
            url.strip = False  # type: ignore[attr-defined]  # what is stored is what was given, or nothing
        if not self.instance._state.adding:
            self.fields.pop("secret", None)
        elif "owner" not in self.fields:
            self.instance.owner = self.new_owner
        self.offer_audience()
        self._offer_types()
        self.offer_choices(self.instance)
        self._headers_before = dict(self.instance.headers)

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        self.check_audience()
        if secret := self.cleaned_data.get("secret"):
            self.instance.secret = secret
        return cleaned

    def _post_clean(self) -> None:
        refused = {name: errors.copy() for name, errors in self.errors.items() if name in self.fields}
        super()._post_clean()  # type: ignore[misc]
        self.errors.update(refused)  # What a field has refused, the model refuses once more in other words.

    @property
    def changes(self) -> dict[str, Any]:
        """The values of the fields that were changed."""
        fields = [name for name in self.changed_data if name not in ("headers", "basic_auth", "basic_password")]
        return {**{name: self.cleaned_data[name] for name in fields}, **self.header_arguments}

    @property
    def header_arguments(self) -> dict[str, Any]:
        """The headers and credentials that were given, as operations take them."""
        return self.header_changes(self._headers_before)

    def _offer_types(self) -> None:
        """Offer the types that the owner may see, and those that the webhook has and that left the catalogue."""
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
    """A past event to evaluate a webhook's filter on."""

    event_id = forms.CharField(
        label=_("Event"),
        max_length=40,
        widget=forms.TextInput(attrs={"class": "vTextField", "placeholder": "evt_…", "spellcheck": "false"}),
        help_text=_("The id of an event, as in the list of events."),
    )
    filter = forms.JSONField(
        label=_("Filter"),
        required=False,
        widget=CodeArea,
        help_text=_("Nothing is saved. Copy the filter to the webhook when it does what you want."),
    )


class TestEventForm(forms.Form):
    """Which test event to send, and with what data."""

    event_type = forms.ChoiceField(label=_("Event type"), choices=event_type_choices)
    event_data = forms.CharField(
        label=_("Data"),
        required=False,
        widget=CodeArea(rows=12),
        help_text=_("A JSON object that fits the type. Leave it empty to send the type's example."),
    )

    def __init__(self, *args: Any, event_types: EventTypeRegistry = registry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        event_type = cast("forms.ChoiceField", self.fields["event_type"])
        event_type.choices = event_type_choices(event_types)
        event_type.widget.attrs["data-examples"] = "examples"
        self.fields["event_data"].widget.attrs["data-example"] = ""

    @classmethod
    def with_example(cls, event_type: str = "", *, event_types: EventTypeRegistry = registry) -> TestEventForm:
        """Return the form with the example of a type, by default of the first, to be edited."""
        name = event_type if event_type in event_types else next(iter(event_types.names()), "")
        initial = {"event_type": name, "event_data": cls.examples().get(name, "")}
        return cls(initial=initial, event_types=event_types)

    @staticmethod
    def examples() -> dict[str, str]:
        """Return the example of each type, laid out."""
        return {found.name: json.dumps(found.example, indent=2, ensure_ascii=False) for found in registry}

    def clean_event_data(self) -> dict[str, Any] | None:
        text = self.cleaned_data["event_data"]
        event_type = self.cleaned_data.get("event_type")
        if not text.strip() or event_type is None:
            return None
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(_("This is not JSON: %(error)s"), params={"error": error}) from None
        if not isinstance(data, dict):
            raise forms.ValidationError(_("Give a JSON object, in braces."))
        try:
            registry.get(event_type).validate(data)
        except InvalidEventDataError as error:
            raise forms.ValidationError(str(error)) from None
        return data
