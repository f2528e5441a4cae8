"""Forms of all pages: the options of a webhook, filters to try, test events, rotations, and refused operations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, cast

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..conf import check_endpoint, known_signatures, settings
from ..event_types import EventTypeRegistry, registry
from ..exceptions import InvalidEndpointError, InvalidEventDataError, WebhooksError
from ..models import Webhook
from ..models.fields import translated
from ..models.limits import MAX_SECRET_OVERLAP
from ..models.webhook_secret import SECRET
from ..models.webhook_settings import WEBHOOK_SETTINGS
from ..operations import rotation
from ..operations.actors import BaseActor
from ..routing.preview import preview_filter
from .display import change_of_url
from .form_fields import NEW_PUBLIC_KEY, BoundedJSONField, ChoiceFields, label_of, without_reordering
from .shown_once import SubmittedForm

SAVED_FIELDS = tuple(each.name for each in WEBHOOK_SETTINGS if each.is_column and not each.is_fixed)
"""The fields of forms that are columns. A field that a page does not show would be saved as empty."""

Choices = list[tuple[str, list[tuple[str, str]]]]

REFUSALS = (ValidationError, WebhooksError)
"""Errors of refused operations. Django handles missing permissions."""

_ATTRIBUTE = "_webhooks_refusal"


class RefusableForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form that shows the refusal of an operation on valid input."""

    refusal: ValidationError | None = None

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.refusal is not None:
            self.add_error(None, self.refusal)
        return cleaned

    def _post_clean(self) -> None:
        refused = {name: errors.copy() for name, errors in self.errors.items() if name in self.fields}
        super()._post_clean()  # type: ignore[misc]
        self.errors.update(refused)  # Replace the model's errors on fields that already have their own.

    def add_error(self, field: str | None, error: Any) -> None:
        super().add_error(field, _translated(error) if isinstance(error, ValidationError) else error)


def as_form_error(error: Exception) -> ValidationError:
    """Return a refusal as an error of a form, translated."""
    return _translated(error if isinstance(error, ValidationError) else ValidationError(str(error)))


def _translated(error: ValidationError) -> ValidationError:
    if hasattr(error, "error_dict"):
        return ValidationError({name: list(map(_translated, errors)) for name, errors in error.error_dict.items()})
    texts = [(text, each.code) for each in error.error_list for text in each.messages]
    return ValidationError([ValidationError(translated(text), code=code) for text, code in texts])


def add_errors(form: forms.BaseForm, error: Exception) -> None:
    """Add the reasons of a refusal to the fields of a form, or to the whole form."""
    refusal = as_form_error(error)
    by_field = refusal.error_dict if hasattr(refusal, "error_dict") else {None: refusal}
    for name, errors in by_field.items():
        form.add_error(name if name in form.fields else None, errors)


def preview_of(webhook: Webhook, form: forms.BaseForm, *, event_url: Callable[[str], str]) -> dict[str, Any]:
    """Return the result of the entered filter on the last events; nothing if it is refused. Nothing is saved."""
    try:
        preview = preview_filter(webhook, form.cleaned_data["filter"])
    except ValidationError as error:
        add_errors(form, error)
        return {}
    examples = {"match_url": preview.match, "other_url": preview.other}
    return {"preview": preview, **{name: event_url(event.pk) for name, event in examples.items() if event is not None}}


def refuse(request: HttpRequest, error: Exception) -> None:
    """Store an operation's error for the form, which shows it when the request is processed again."""
    setattr(request, _ATTRIBUTE, as_form_error(error))


def refusal_of(request: HttpRequest) -> ValidationError | None:
    return getattr(request, _ATTRIBUTE, None)


def event_type_choices(event_types: EventTypeRegistry) -> Choices:
    """Return event types as grouped choices of a form field."""
    return [
        (gettext(group or "Other"), [(each.name, each.name) for each in members])
        for group, members in event_types.groups().items()
    ]


TRY_FILTER = "try_filter"
"""Name of the button beside the field of a filter."""


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


class FilterArea(CodeArea):
    """A text area for a filter, with the operators and an example, and in the settings a button to try it."""

    template_name = "webhooks_app/widgets/filter.html"
    can_try = False
    tried: Mapping[str, Any] = MappingProxyType({})
    """The result, from ``preview_of``."""

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        return {**super().get_context(name, value, attrs), "can_try": self.can_try, **self.tried}


class UrlForm(forms.Form):
    """Mixin for forms with the URL of a webhook, which offer the ASCII form of an international one."""

    @property
    def suggested_url(self) -> str:
        """The URL to use instead of the refused one, or ""."""
        if not self["url"].errors:
            return ""
        try:
            check_endpoint(str(self["url"].value()))
        except InvalidEndpointError as error:
            return error.suggestion
        return ""


class WebhookOptions(UrlForm, ChoiceFields, RefusableForm):
    """Base of the forms of a webhook, with its event types and options."""

    event_types = forms.MultipleChoiceField(label=_("Event types"), widget=GroupedCheckboxes)
    event_url: Callable[[str], str] | None = None
    """Returns the page of an event on which a filter was tried; None if none may be tried."""

    class Meta:
        model = Webhook
        fields = SAVED_FIELDS
        widgets: ClassVar[dict[str, Any]] = {"filter": FilterArea()}
        field_classes: ClassVar[dict[str, Any]] = {"filter": BoundedJSONField}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "url" in self.fields:
            self.fields["url"].strip = False  # type: ignore[attr-defined]  # stored exactly as entered
            self._explain_url()
        if "filter" in self.fields:
            self._filter_area.can_try = self.event_url is not None and not self.instance._state.adding
        self.set_choices()

    @property
    def _filter_area(self) -> FilterArea:
        return cast("FilterArea", self.fields["filter"].widget)

    @property
    def tries_filter(self) -> bool:
        """True if the filter is only tried, so that nothing may be saved."""
        return TRY_FILTER in self.data

    def is_valid(self) -> bool:
        """Return False also for a form that only tries the filter. It shows the result beside the field."""
        if not self.tries_filter:
            return super().is_valid()
        if super().is_valid() and self._filter_area.can_try and self.event_url is not None:
            self._filter_area.tried = preview_of(self.instance, self, event_url=self.event_url)
        return False

    def _explain_url(self) -> None:
        """Show the new URL of a webhook while it is verified, and the URL that is in use until then."""
        if self.instance.is_changing_url:
            self.initial["url"] = self.instance.pending_url
            text = gettext("{sentence} Enter the current URL again to keep it.")
            self.fields["url"].help_text = format_html(text, sentence=change_of_url(self.instance))
        elif self.instance.status == Webhook.Status.ACTIVE:
            self.fields["url"].help_text = gettext(
                "Events go on to the current URL until a new one is verified. If nothing more may be sent to the "
                "current URL, pause the webhook first."
            )

    def set_types(self, visible: EventTypeRegistry) -> None:
        """Offer these event types, and those of the webhook that left the catalogue."""
        field = self.fields.get("event_types")
        if not isinstance(field, forms.MultipleChoiceField):
            return
        choices = event_type_choices(visible)
        if retired := [(name, name) for name in self.instance.event_types if name not in visible]:
            choices.append((str(_("No longer in the catalogue")), retired))
        field.choices = choices

    def clean_event_types(self) -> list[str]:
        return without_reordering(self.cleaned_data["event_types"], list(self.instance.event_types))

    @property
    def changes(self) -> dict[str, Any]:
        """The values of the changed fields as arguments of ``update_webhook``."""
        unchanged = {"signatures"} if self.selects_no_signature else set()
        fields = [name for name in SAVED_FIELDS if name in self.changed_data and name not in unchanged]
        return {**{name: self.cleaned_data[name] for name in fields}, **self.header_arguments}


class TryFilterForm(forms.Form):
    """A past event and the filter to evaluate on it."""

    event_id = forms.CharField(
        label=_("Event"),
        required=False,
        max_length=40,
        widget=forms.TextInput(attrs={"class": "vTextField", "placeholder": "evt_…", "spellcheck": "false"}),
        help_text=_("ID of an event (evt_…). Leave empty to try the filter only on the last events."),
    )
    filter = BoundedJSONField(
        label=_("Filter"),
        required=False,
        widget=FilterArea,
        help_text=_("A condition on the data of events, as JSON. Leave empty for all events."),
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
    def of(
        cls, sent: QueryDict | None, subscribed: Sequence[str], *, event_types: EventTypeRegistry, **options: Any
    ) -> TestEventForm:
        """Return the form that was sent. If none was, or the example was asked for, fill it with one.

        The example is that of the chosen type, or else of the first subscribed one, or of the first that is offered.
        """
        if sent is not None and "show_example" not in sent:
            return cls(sent, event_types=event_types, **options)
        chosen = str(sent.get("event_type", "")) if sent is not None else ""
        name = next((each for each in (chosen, *subscribed[:1], *event_types.names()) if each in event_types), "")
        form = cls(event_types=event_types, **options)
        form.initial = {"event_type": name, "event_data": form.examples().get(name, "")}
        return form

    def examples(self) -> dict[str, str]:
        """Return the example of each offered type as indented JSON."""
        return {
            event_type.name: json.dumps(event_type.example, indent=2, ensure_ascii=False)
            for event_type in self.event_types
        }

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


class Rotated(NamedTuple):
    """The result of a rotation."""

    secret: str
    """The new secret; "" for a key pair, whose public key is in a message."""
    messages: list[tuple[int, str]]
    """Level and text of each."""


REPLACES = "replaces_"
"""Prefix of the hidden fields with the fingerprint of each key."""


class RotationForm(SubmittedForm):
    """The key to be replaced, and how long it goes on signing."""

    scheme = forms.ChoiceField(label=_("Key"), widget=forms.RadioSelect)
    start = forms.ChoiceField(
        label=_("Start"),
        required=False,
        widget=forms.RadioSelect,
        initial="prepared",
        choices=(
            ("prepared", _("Prepare: the old secret signs until you activate the new one, or the overlap ends")),
            ("now", _("Now, for example after a leak: the new secret signs at once")),
        ),
    )
    overlap_hours = forms.FloatField(
        label=_("Overlap in hours"),
        required=False,
        min_value=0,
        max_value=MAX_SECRET_OVERLAP / timedelta(hours=1),
        initial=lambda: f"{settings.SECRET_OVERLAP_SECONDS / 3600:g}",
        help_text=_(
            "Requests carry signatures of both secrets for this long before the activation, and again after it. 0 "
            "replaces the old secret at once, for example after a leak."
        ),
    )

    def __init__(self, *args: Any, webhook: Webhook, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._keys = _keys(webhook)
        scheme: Any = self.fields["scheme"]
        scheme.choices = list(self._keys.items())
        scheme.initial = next(iter(self._keys))
        if len(self._keys) == 1:
            scheme.required, scheme.widget = False, forms.HiddenInput()
        for key in self._keys:
            initial = rotation.fingerprint_of_key(webhook, key)
            self.fields[REPLACES + key] = forms.CharField(required=False, widget=forms.HiddenInput, initial=initial)

    @property
    def scheme_of_key(self) -> str:
        return str(self.cleaned_data.get("scheme") or next(iter(self._keys)))

    @property
    def replaces(self) -> str:
        """The fingerprint of the key when the form was shown."""
        return str(self.cleaned_data[REPLACES + self.scheme_of_key])

    @property
    def overlap(self) -> timedelta | None:
        """The overlap that was entered, or None to use the setting."""
        hours = self.cleaned_data["overlap_hours"]
        return None if hours is None else timedelta(hours=hours)

    @property
    def activate_at(self) -> datetime | None:
        """The activation of a prepared key after one overlap, or None to sign with it at once."""
        if self.cleaned_data["start"] != "prepared":
            return None
        default = timedelta(seconds=settings.SECRET_OVERLAP_SECONDS)
        return timezone.now() + (default if self.overlap is None else self.overlap)

    def rotate(self, webhook: Webhook, *, actor: BaseActor) -> Rotated:
        """Rotate the chosen key. Raise as the operation."""
        name, notes = self.scheme_of_key, []
        key = rotation.rotate_secret(
            webhook,
            actor=actor,
            overlap=self.overlap,
            replaces=self.replaces,
            scheme=name,
            activate_at=self.activate_at,
        )
        if warning := rotation.warning_about_key(webhook, name):
            notes.append((messages.WARNING, warning))
        scheme = known_signatures()[name]
        if not scheme.is_asymmetric:
            return Rotated(key, notes)
        public_key = NEW_PUBLIC_KEY % {"key": scheme.verification_key(key)}
        return Rotated("", [*notes, (messages.SUCCESS, public_key)])


def _keys(webhook: Webhook) -> dict[str, str]:
    """Return the labels of the schemes that sign with each key of a webhook, by the scheme of the key."""
    users: dict[str, list[str]] = {}
    for scheme in webhook.schemes:
        users.setdefault(scheme.key_scheme, []).append(label_of(scheme))
    return {key: ", ".join(names) for key, names in users.items()} or {SECRET: SECRET}
