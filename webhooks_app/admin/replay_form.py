"""Form for a new replay."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from ..event_types import EventTypeRegistry
from ..models import Replay, Webhook
from ..models.limits import MAX_RATE
from ..models.replay import LEAST_RATE, missing_outcomes
from .display import MomentInput, WideCheckboxes
from .webhook_form import GroupedCheckboxes, event_type_choices


class ReplayForm(forms.Form):
    webhook: forms.ModelChoiceField[Webhook] = forms.ModelChoiceField(
        label=_("Webhook"),
        queryset=None,
        widget=forms.TextInput(attrs={"class": "vURLField"}),
        help_text=_("ID (wh_…). The page of each webhook has a button for its replay."),
        error_messages={"invalid_choice": _("No webhook with this ID is visible to you.")},
    )
    since = forms.DateTimeField(
        label=_("From"),
        required=False,
        widget=MomentInput,
        help_text=_("Default: the start of its first failing period of the last week, or a week ago."),
    )
    until = forms.DateTimeField(
        label=_("To"),
        required=False,
        widget=MomentInput,
        help_text=_("Default: now. Later events are not included."),
    )
    states = forms.MultipleChoiceField(
        label=_("Which events"), choices=Replay.Outcome.choices, initial=missing_outcomes, widget=WideCheckboxes
    )
    event_types = forms.MultipleChoiceField(
        label=_("Event types"),
        required=False,
        widget=GroupedCheckboxes,
        help_text=_("Default: all subscribed event types."),
    )
    rate = forms.FloatField(
        label=_("Deliveries per second"),
        required=False,
        min_value=LEAST_RATE,
        max_value=MAX_RATE,
        help_text=_("Upper limit. Default: the value of the setting. Live traffic takes precedence."),
    )

    def __init__(self, *args: Any, webhooks: Any, event_types: EventTypeRegistry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["webhook"].queryset = webhooks  # type: ignore[attr-defined]
        if not self.is_bound and (webhook := webhooks.filter(pk=self.initial.get("webhook")).first()) is not None:
            event_types = event_types.where(lambda event_type: event_type.name in webhook.event_types)
        self.fields["event_types"].choices = event_type_choices(event_types)  # type: ignore[attr-defined]
