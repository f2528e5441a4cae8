"""A policy with roles: groups named after an organization limit what its members may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhooks_app.owners import Access, MemberOwners

VIEWERS, OPERATORS = "viewers", "operators"
ACCESS = {VIEWERS: Access.READ, OPERATORS: Access.READ | Access.MANAGE}


class RoleOwners(MemberOwners):
    def access(self, user: Any, owners: Sequence[Any]) -> Mapping[Any, Access]:
        groups = set(user.groups.values_list("name", flat=True))
        return {owner.pk: self._of(groups, owner) for owner in owners}

    def _of(self, groups: set[str], owner: Any) -> Access:
        limits = [access for role, access in ACCESS.items() if f"{role} of {owner.name}" in groups]
        return limits[0] if limits else Access.ALL
