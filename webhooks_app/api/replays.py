"""Replays of events to a webhook."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ..models import Replay, Webhook
from ..models.limits import MAX_EVENT_TYPES, MAX_RATE
from ..models.replay import LEAST_RATE
from ..operations import replays
from ..operations.rights import READ, REPLAY
from ..pages.actions import REPLAY as STEPS
from ..pages.lists import REPLAYS
from .base import ApiViewSet, Operation
from .fields import (
    BodySerializer,
    KnownField,
    MomentField,
    MomentInputField,
    NameField,
    RateField,
    ReasonCodeField,
    ShortListField,
    TextField,
    event_type_field,
)

__all__ = ["ReplayViewSet"]


class NewReplaySerializer(BodySerializer[Replay]):
    webhook_id = TextField(help_text="The webhook to send to.")
    since = MomentInputField(
        required=False,
        help_text="Start of the period. Default: the start of the first failing period of the last week, or a week "
        "ago. Never before the creation of the webhook.",
    )
    until = MomentInputField(
        required=False, help_text="End of the period, later than `since`. Default and upper bound: now."
    )
    events = ShortListField(
        child=event_type_field(),
        source="event_types",
        required=False,
        max_length=MAX_EVENT_TYPES,
        help_text="The event types to send, out of the subscribed ones. Default: all subscribed types.",
    )
    states = ShortListField(
        child=NameField(lambda: Replay.Outcome.values),
        required=False,
        min_length=1,
        max_length=len(Replay.Outcome),
        help_text="Outcomes of the events at the webhook. `missed` events were never queued for it, for example while "
        "it was disabled. Default: all except `succeeded`.",
    )
    rate = RateField(
        required=False,
        allow_null=True,
        min_value=LEAST_RATE,
        max_value=MAX_RATE,
        help_text="Maximum number of deliveries per second. Live traffic always has priority.",
    )


class FailingPeriodSerializer(serializers.Serializer[Any]):
    since = serializers.CharField(help_text="Time when the first delivery was given up, or the webhook was stopped.")
    until = serializers.CharField(allow_null=True, help_text="Time of the next success; null if there was none.")
    given_up = serializers.IntegerField(help_text="Number of deliveries given up in between.")


class SampleSerializer(serializers.Serializer[Any]):
    event_id = serializers.CharField()
    type = serializers.CharField()
    created = serializers.CharField()
    state = KnownField(choices=Replay.Outcome.choices)


class ReplaySerializer(serializers.Serializer[Replay]):
    id = serializers.CharField()
    webhook_id = serializers.CharField()
    state = KnownField(
        choices=Replay.State.choices,
        help_text="`counting`, then `ready`, or `done` without events; nothing is sent before the start. `stopped` if "
        "its webhook was stopped.",
    )
    state_reason = serializers.CharField(help_text="Human-readable reason for the stop.")
    state_reason_code = ReasonCodeField(source="state_reason", help_text="Code of that reason; empty without one.")
    since = MomentField()
    until = MomentField()
    events = serializers.ListField(
        child=serializers.CharField(),
        source="event_types",
        help_text="Empty for all subscribed types.",
    )
    states = serializers.ListField(child=KnownField(choices=Replay.Outcome.choices))
    rate = serializers.FloatField(allow_null=True)
    matched = serializers.IntegerField(help_text="Number of events found by counting.")
    queued = serializers.IntegerField(help_text="Number of events queued so far.")
    failing = FailingPeriodSerializer(
        many=True, help_text="Failing periods of the webhook at the time of planning, the latest last."
    )
    sample = SampleSerializer(many=True, help_text="The first of the events found.")
    recovers_since = MomentField(
        allow_null=True,
        help_text="Start of the failure, if the service started the replay itself to recover from it; null otherwise.",
    )
    created = MomentField(source="created_at")
    started_at = MomentField(allow_null=True)
    finished_at = MomentField(allow_null=True)


class ReplayViewSet(ApiViewSet):
    """Replays of events to a webhook."""

    tag = "Replays"
    queryset = Replay.objects.select_related("webhook")
    listed = REPLAYS
    lookup_url_kwarg = "replay_id"
    table = STEPS
    record = ReplaySerializer
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=ReplaySerializer, many=True),
        "create": Operation(right=REPLAY, request=NewReplaySerializer, answer=ReplaySerializer, status=201),
        "retrieve": Operation(scope=READ, answer=ReplaySerializer),
    }

    def list(self, request: Request) -> Response:
        """List your replays, the newest first."""
        return self.answer_page(self.get_queryset())

    def create(self, request: Request) -> Response:
        """Plan a replay.

        Its events are counted, in the background if that takes long. Nothing is sent before the start.
        """
        fields = self.validated()
        webhook = self.find(fields.pop("webhook_id"), self.owned(Webhook.objects.existing()))
        replay = replays.plan(webhook, actor=self.actor, **fields)
        location = request.build_absolute_uri(f"{request.path.rstrip('/')}/{replay.id}")
        return self.answer(replay, headers={"Location": location})

    def retrieve(self, request: Request, replay_id: str) -> Response:
        """Read a replay and its progress."""
        return self.answer(self.find(replay_id))
