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
        help_text="The account, or the beginning of its API key; empty for staff, the service and other accounts."
    )
    changes = serializers.DictField(
        child=serializers.ListField(min_length=2, max_length=2),
        help_text="The old and the new value of each changed field.",
    )
    reason = serializers.CharField()
    created = MomentField(source="created_at")

    def get_by(self, entry: AuditEntry) -> str:
        caller = self.context["view"].actor
        # The account of a key that belongs to no user is that of its creator, possibly staff.
        is_own = caller.scopes is None or caller.account == caller.owner
        return entry.name_for(caller.account if is_own else None)

    def to_representation(self, instance: AuditEntry) -> dict[str, Any]:
        shown = super().to_representation(instance)
        changes = shown["changes"]
        shown["changes"] = {AUDIT_NAMES.get(name, name): changes[name] for name in changes}
        return shown
