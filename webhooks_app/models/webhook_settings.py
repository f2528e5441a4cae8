"""The settings of a webhook, described once.

The audit log, the operations, and the forms of the console and of the customers' pages follow this table. A test
compares the API's fields with it. A setting's label and limits are its column's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

MAX_DESCRIPTION_LENGTH = 200
MAX_POLICY_NAME_LENGTH = 40


class SettingsSection(TextChoices):
    WHERE = "where", _("Where")
    WHAT = "what", _("What")
    HOW = "how", _("How")
    SECURITY = "security", _("Security")

    @property
    def settings(self) -> list[WebhookSetting]:
        return [each for each in WEBHOOK_SETTINGS if each.section == self]


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookSetting:
    name: str
    """That of its column, or else of the argument of ``register_webhook`` and ``update_webhook``."""
    section: SettingsSection
    inputs: tuple[str, ...]
    """The fields of forms."""
    audited: str
    """The attribute whose changes the audit log has; "" if they are not recorded."""
    in_api: str
    """Its name in the API; "" if only staff may set it."""
    is_column: bool = True
    is_fixed: bool = False
    """Whether pages and the API set it for a new webhook only."""


def _setting(section: SettingsSection, name: str, **more: Any) -> WebhookSetting:
    return WebhookSetting(name=name, section=section, **{"inputs": (name,), "audited": name, "in_api": name, **more})


_WHERE, _WHAT, _HOW, _SECURITY = SettingsSection

WEBHOOK_SETTINGS = (
    _setting(_WHERE, "url"),
    _setting(_WHERE, "description"),
    _setting(_WHERE, "owner", audited="owner_id", in_api="", is_fixed=True),
    _setting(_WHAT, "event_types", in_api="events"),
    _setting(_WHAT, "filter"),
    _setting(_HOW, "retry_policy"),
    _setting(_HOW, "accepted_statuses"),
    _setting(_HOW, "order"),
    _setting(_HOW, "recovery"),
    _setting(_HOW, "retry_notices"),
    _setting(_HOW, "max_in_flight"),
    _setting(_HOW, "rate_limit"),
    _setting(_SECURITY, "secret", audited="", is_column=False, is_fixed=True),
    _setting(_SECURITY, "signatures", inputs=("signatures", "removes_signatures")),
    _setting(_SECURITY, "headers", audited="header_fingerprints", is_column=False),
    # The credentials are one of the headers, and recorded with them.
    _setting(_SECURITY, "basic_auth", audited="", is_column=False, inputs=("basic_auth", "basic_password")),
)
"""In the order of forms. A new column of webhooks gets an entry here, unless it is a state."""

SETTING_COLUMNS = tuple(each.name for each in WEBHOOK_SETTINGS if each.is_column)
