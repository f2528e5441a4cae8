"""What was done for an account, by whom and why: its entries of the audit log."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from ..models import AuditEntry
from ..models.audit import Action
from ..models.keyset import Page
from ..pages.lists import AUDIT
from .base import ListPage

__all__ = ["ActivityPage"]

OF_STAFF = (Action.PROBLEM_ACKNOWLEDGED, Action.PROBLEM_IGNORED, Action.PROBLEM_REOPENED, Action.LIST_EXPORTED)
"""Actions on what only the console has."""


class ActivityPage(ListPage):
    """The audit entries of the account. Staff remain anonymous."""

    template_name = "webhooks_app/portal/activity.html"
    section = "activity"
    title = _("Activity")
    listed = AUDIT

    def rows(self) -> Any:
        return AuditEntry.objects.owned_by(self.owner).for_owner().exclude(action__in=OF_STAFF)

    def shown(self, page: Page) -> dict[str, Any]:
        return {"entries": [(entry, entry.name_for(self.actor.account)) for entry in page.rows]}
