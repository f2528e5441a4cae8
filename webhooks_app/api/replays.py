"""Replays: their records, the bodies that ask for them, and their view set."""

# A view is called with the request, and those of one object with its identifier, whether it needs them or not.

from __future__ import annotations

from typing import Any, ClassVar

import django_filters
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from ..models import ApiKey, Replay, Webhook
from ..models.limits import MAX_EVENT_TYPES, MAX_RATE
from ..models.replay import LEAST_RATE
from ..replays.planning import plan_replay
from .base import ApiViewSet, Operation
from .fields import AskedMomentField, EventTypeField, MomentField, RateField, ShortListField, TextField
from .filters import BoundedFilterSet

READ = ApiKey.Scope.WEBHOOKS_READ.value
WRITE = ApiKey.Scope.WEBHOOKS_WRITE.value


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
        help_text="Events from then on; where it is left out, since the webhook was last delivering. Never before the "
        "webhook was made.",
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
        help_text="Empty for all that the webhook is subscribed to.",
    )
    states = serializers.ListField(child=OutcomeField())
    rate = serializers.FloatField(allow_null=True)
    matched = serializers.IntegerField(help_text="Events that were found when it was counted.")
    queued = serializers.IntegerField(help_text="Events that it has queued so far.")
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
            scope=WRITE, request=NewReplaySerializer, answer=ReplaySerializer, status=201, conflicts=True
        ),
        "retrieve": Operation(scope=READ, answer=ReplaySerializer),
        "start": Operation(scope=WRITE, answer=ReplaySerializer, conflicts=True),
        "pause": Operation(scope=WRITE, answer=ReplaySerializer, conflicts=True),
        "resume": Operation(scope=WRITE, answer=ReplaySerializer, conflicts=True),
        "cancel": Operation(scope=WRITE, answer=ReplaySerializer, conflicts=True),
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
        replay = plan_replay(webhook, requested_by=request.user, **fields)
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
        return self._answer_to(replay_id, "start")

    @action(detail=True, methods=["post"])
    def pause(self, request: Request, replay_id: str) -> Response:
        """Pause a running replay.

        What it has queued is sent.
        """
        return self._answer_to(replay_id, "pause")

    @action(detail=True, methods=["post"])
    def resume(self, request: Request, replay_id: str) -> Response:
        """Go on with a replay that was paused, or that was stopped with its webhook."""
        return self._answer_to(replay_id, "resume")

    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, replay_id: str) -> Response:
        """End a replay for good.

        What it has queued and is not being sent yet is cancelled.
        """
        return self._answer_to(replay_id, "cancel")

    def _answer_to(self, replay_id: str, verb: str) -> Response:
        replay = self.find(replay_id)
        getattr(replay, verb)()
        return self.answer(replay)
