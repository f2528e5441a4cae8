"""Replays: their records, the bodies that ask for them, and their view set."""

# A view is called with the request, and those of one object with its identifier, whether it needs them or not.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import django_filters
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from ..models import ApiKey, Replay, Webhook
from ..models.limits import MAX_EVENT_TYPES, MAX_RATE
from ..models.replay import LEAST_RATE
from ..operations import replays
from ..operations.rights import REPLAY
from .base import ApiViewSet, Operation
from .fields import AskedMomentField, EventTypeField, MomentField, RateField, ShortListField, TextField
from .filters import BoundedFilterSet

READ = ApiKey.Scope.WEBHOOKS_READ.value


class OutcomeField(TextField):
    """What became of an event. Whether there is such an outcome is asked once for all."""

    component = "ReplayOutcome"

    def schema_extras(self) -> dict[str, Any]:
        return {"enum": list(Replay.Outcome.values)}


class StateField(TextField):
    component = "ReplayState"

    def schema_extras(self) -> dict[str, Any]:
        return {"enum": list(Replay.State.values)}


class NewReplaySerializer(serializers.Serializer[Replay]):
    webhook_id = TextField(help_text="The webhook to send to.")
    since = AskedMomentField(
        required=False,
        help_text="Events from then on; where it is left out, since its first failing period of the last week, or a "
        "week ago. Never before the webhook was created.",
    )
    until = AskedMomentField(
        required=False, help_text="Events before then, after `since`; now, where it is left out or later."
    )
    events = ShortListField(
        child=EventTypeField(),
        source="event_types",
        required=False,
        max_length=MAX_EVENT_TYPES,
        help_text="The event types to send, of those that the webhook is subscribed to; all, where it is left out.",
    )
    states = ShortListField(
        child=OutcomeField(),
        required=False,
        min_length=1,
        max_length=len(Replay.Outcome),
        help_text="What became of the events at the webhook: `missed` was never queued for it, as while it was "
        "disabled. All but `succeeded`, where it is left out.",
    )
    rate = RateField(
        required=False,
        allow_null=True,
        min_value=LEAST_RATE,
        max_value=MAX_RATE,
        help_text="Deliveries a second, at most. Live traffic comes first in any case.",
    )


class FailingPeriodSerializer(serializers.Serializer[Any]):
    since = serializers.CharField(help_text="When the first delivery was given up, or the webhook was stopped.")
    until = serializers.CharField(allow_null=True, help_text="When the next one succeeded; null while none has.")
    given_up = serializers.IntegerField(help_text="Deliveries given up in between.")


class SampleSerializer(serializers.Serializer[Any]):
    event_id = serializers.CharField()
    type = serializers.CharField()
    created = serializers.CharField()
    state = OutcomeField()


class ReplaySerializer(serializers.Serializer[Replay]):
    id = serializers.CharField()
    webhook_id = serializers.CharField()
    state = StateField(
        help_text="`counting`, then `ready`; nothing is sent before it is started. `stopped` when its webhook was.",
    )
    state_reason = serializers.CharField(help_text="Why it was stopped, for people.")
    since = MomentField()
    until = MomentField()
    events = serializers.ListField(
        child=serializers.CharField(),
        source="event_types",
        help_text="Empty for all subscribed types.",
    )
    states = serializers.ListField(child=OutcomeField())
    rate = serializers.FloatField(allow_null=True)
    matched = serializers.IntegerField(help_text="Events that were found when it was counted.")
    queued = serializers.IntegerField(help_text="Events that it has queued so far.")
    failing = FailingPeriodSerializer(
        many=True, help_text="When the webhook was failing, as of planning, the latest period last."
    )
    sample = SampleSerializer(many=True, help_text="The first of the events that were found.")
    created = MomentField(source="created_at")
    started_at = MomentField(allow_null=True)
    finished_at = MomentField(allow_null=True)


class ReplayFilter(BoundedFilterSet):
    by_index = frozenset({"webhook_id"})
    webhook_id = django_filters.CharFilter(field_name="webhook", help_text="Of this webhook.")
    state = django_filters.ChoiceFilter(choices=Replay.State.choices, help_text="In this state.")


class ReplayViewSet(ApiViewSet):
    tag = "Replays"
    queryset = Replay.objects.select_related("webhook")
    filterset_class = ReplayFilter
    lookup_url_kwarg = "replay_id"
    operations: ClassVar = {
        "list": Operation(scope=READ, answer=ReplaySerializer, many=True),
        "create": Operation(
            scope=REPLAY.scope, request=NewReplaySerializer, answer=ReplaySerializer, status=201, conflicts=True
        ),
        "retrieve": Operation(scope=READ, answer=ReplaySerializer),
        "start": Operation(scope=REPLAY.scope, answer=ReplaySerializer, conflicts=True),
        "pause": Operation(scope=REPLAY.scope, answer=ReplaySerializer, conflicts=True),
        "resume": Operation(scope=REPLAY.scope, answer=ReplaySerializer, conflicts=True),
        "cancel": Operation(scope=REPLAY.scope, answer=ReplaySerializer, conflicts=True),
    }

    def list(self, request: Request) -> Response:
        """List your replays, the newest first."""
        return self.answer_page(self.get_queryset())

    def create(self, request: Request) -> Response:
        """Plan a replay.

        What would be sent is counted, in the background where that takes long, and nothing is sent before it is
        started.
        """
        fields = self.validated()
        webhook = self.find(fields.pop("webhook_id"), self.owned(Webhook.objects.existing()))
        replay = replays.plan(webhook, actor=self.actor, **fields)
        location = request.build_absolute_uri(f"{request.path.rstrip('/')}/{replay.id}")
        return self.answer(replay, headers={"Location": location})

    def retrieve(self, request: Request, replay_id: str) -> Response:
        """Read a replay, and how far it is."""
        return self.answer(self.find(replay_id))

    @action(detail=True, methods=["post"])
    def start(self, request: Request, replay_id: str) -> Response:
        """Start a replay that is ready.

        Workers queue its events, each once, at its rate and no more than leaves room for live traffic.
        """
        return self._perform(replays.start, replay_id)

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, replay_id: str) -> Response:
        """Pause a running replay.

        What it has queued is sent.
        """
        return self._perform(replays.pause, replay_id)

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, replay_id: str) -> Response:
        """Go on with a replay that was paused, or that was stopped with its webhook."""
        return self._perform(replays.resume, replay_id)

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, replay_id: str) -> Response:
        """End a replay for good.

        What it has queued and is not being sent yet is cancelled.
        """
        return self._perform(replays.cancel, replay_id)

    def _perform(self, operation: Callable[..., object], replay_id: str) -> Response:
        replay = self.find(replay_id)
        operation(replay, actor=self.actor)
        return self.answer(replay)
