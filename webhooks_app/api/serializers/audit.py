"""Audit entries, under the API's names of fields."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ...models import AuditEntry
from ...models.audit import Action, Via
from ..fields import MomentField

AUDIT_NAMES = {"event_types": "events", "header_fingerprints": "headers"}
"""The API's names of changed fields that have other names in the models."""


class AuditEntrySerializer(serializers.Serializer[AuditEntry]):
    id = serializers.CharField()
    action = serializers.ChoiceField(choices=Action.choices)
    via = serializers.ChoiceField(choices=Via.choices, help_text="The interface that was used.")
    by = serializers.SerializerMethodField(
        help_text="The account, or the beginning of its API key; empty for staff and the service itself."
    )
    changes = serializers.DictField(
        child=serializers.ListField(min_length=2, max_length=2),
        help_text="The old and the new value of each changed field.",
    )
    reason = serializers.CharField()
    created = MomentField(source="created_at")

    def get_by(self, entry: AuditEntry) -> str:
        return entry.name_for(self.context["view"].actor.account)

    def to_representation(self, instance: AuditEntry) -> dict[str, Any]:
        shown = super().to_representation(instance)
        changes = shown["changes"]
        shown["changes"] = {AUDIT_NAMES.get(name, name): changes[name] for name in changes}
        return shown
