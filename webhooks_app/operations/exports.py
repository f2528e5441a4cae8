"""The audit entry of an export, for which there is no row to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..models import AuditEntry
from ..models.audit import Action, acting
from .actors import StaffMember

__all__ = ["count_exported", "record_export"]


def record_export(name: str, facts: Mapping[str, Any], actor: StaffMember) -> AuditEntry:
    """Create the entry of an export of the list ``name`` before its first row. A person's only owner can see it."""
    own = () if actor.manages_all else tuple(actor.owner_ids)
    with acting(actor):
        return AuditEntry.objects.record(
            Action.LIST_EXPORTED,
            name,
            owner_id=own[0] if len(own) == 1 else None,
            changes={key: [None, value] for key, value in facts.items()},
        )


def count_exported(entry: AuditEntry, number: int) -> None:
    """Add the number of rows that were sent."""
    entry.changes = {**entry.changes, "rows": [None, number]}
    entry.save(update_fields=["changes"])
