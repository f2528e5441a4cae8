"""Forms about webhooks."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..event_types import registry
from ..exceptions import InvalidEventDataError, LimitsUnavailableError, RateLimitedError
from ..models import Webhook
from ..models.limits import MAX_SECRET_OVERLAP, check_in_flight
from ..rate_limits import limit_verification

Choices = list[tuple[str, list[tuple[str, str]]]]


def event_type_choices(*, operational: bool = True) -> Choices:
    """Return the catalogue, grouped, as a form field wants it, with the operational event types or without."""
    groups = [
        (group or str(_("Other")), [(each.name, each.name) for each in members if operational or not each.operational])
        for group, members in registry.groups().items()
    ]
    return [(group, names) for group, names in groups if names]


class GroupedCheckboxes(forms.CheckboxSelectMultiple):
    """Check boxes in their groups, each with what its event type means."""

    template_name = "webhooks_app/widgets/grouped_checkboxes.html"

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        option["description"] = registry.get(value).description if value in registry else ""
        return option


class WebhookForm(forms.ModelForm):  # type: ignore[type-arg]
    """A webhook with its event types as check boxes, and its secret while it is made."""

    new_owner: Any = None
    """Whose a new webhook is where the form does not ask for the owner."""

    may_exceed_limits = False
    """Whether a webhook may be allowed more requests at a time than its owner could ask for."""

    event_types = forms.MultipleChoiceField(
        label=_("Event types"), choices=event_type_choices, widget=GroupedCheckboxes
    )
    secret = forms.CharField(
        label=_("Secret"),
        required=False,
        strip=False,
        widget=forms.TextInput(attrs={"autocomplete": "off", "class": "vTextField"}),
        help_text=_("16 to 256 characters. Leave it empty to have one made. It is shown once."),
    )

    class Meta:
        model = Webhook
        fields = ("owner", "url", "event_types", "description", "retry_notices", "max_in_flight", "rate_limit")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (url := self.fields.get("url")) is not None:
            url.widget.attrs["class"] = "vURLField"
            url.strip = False  # type: ignore[attr-defined]  # what is stored is what was given, or nothing
        if not self.instance._state.adding:
            self.fields.pop("secret", None)
        elif "owner" not in self.fields:
            self.instance.owner = self.new_owner
        self._offer_types()

    def clean_max_in_flight(self) -> int | None:
        number: int | None = self.cleaned_data["max_in_flight"]
        if number is not None and "max_in_flight" in self.changed_data and not self.may_exceed_limits:
            check_in_flight(number)
        return number

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if secret := self.cleaned_data.get("secret"):
            self.instance.secret = secret
        return cleaned

    def _post_clean(self) -> None:
        refused = {name: errors.copy() for name, errors in self.errors.items() if name in self.fields}
        super()._post_clean()  # type: ignore[misc]
        self.errors.update(refused)  # What a field has refused, the model refuses once more in other words.
        if self.errors or not (self.instance._state.adding or "url" in self.changed_data):
            return
        try:
            limit_verification(self.instance)
        except (RateLimitedError, LimitsUnavailableError) as error:
            self.add_error(None, str(error))

    def _offer_types(self) -> None:
        """Show types that left the catalogue, so that they are not dropped without a word; what is ours, to our own."""
        field = self.fields.get("event_types")
        if not isinstance(field, forms.MultipleChoiceField):
            return
        choices = event_type_choices(operational="owner" in self.fields or self.instance.owner_id is None)
        retired = [name for name in self.instance.event_types if name not in registry]
        if retired:
            choices.append((str(_("No longer in the catalogue")), [(name, name) for name in retired]))
        field.choices = choices


class OverlapForm(forms.Form):
    """For how long a replaced secret goes on signing, and which one it is that is replaced."""

    overlap_hours = forms.FloatField(
        label=_("Hours for which the old secret signs too"),
        required=False,
        min_value=0,
        max_value=MAX_SECRET_OVERLAP / timedelta(hours=1),
        initial=lambda: f"{settings.SECRET_OVERLAP_SECONDS / 3600:g}",
        help_text=_("Receivers have this long to switch. 0 cuts the old secret off at once, as after a leak."),
    )

    replaces = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def overlap(self) -> timedelta | None:
        """The time that was asked for; None for the setting's."""
        hours = self.cleaned_data["overlap_hours"]
        return None if hours is None else timedelta(hours=hours)


class TestEventForm(forms.Form):
    """Which test event to send, and with what data."""

    event_type = forms.ChoiceField(label=_("Event type"), choices=event_type_choices)
    event_data = forms.CharField(
        label=_("Data"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 12, "class": "vLargeTextField webhooks-code", "spellcheck": "false"}),
        help_text=_("A JSON object that fits the type. Leave it empty to send the type's example."),
    )

    def __init__(self, *args: Any, operational: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        event_type = cast("forms.ChoiceField", self.fields["event_type"])
        event_type.choices = event_type_choices(operational=operational)
        event_type.widget.attrs["data-examples"] = "examples"
        self.fields["event_data"].widget.attrs["data-example"] = ""

    @classmethod
    def with_example(cls, event_type: str = "", *, operational: bool = True) -> TestEventForm:
        """Return the form with the example of a type, by default of the first, to be edited."""
        names = [found.name for found in registry]
        name = event_type if event_type in names else next(iter(names), "")
        initial = {"event_type": name, "event_data": cls.examples().get(name, "")}
        return cls(initial=initial, operational=operational)

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
