"""Every setting of a webhook is where the table says, and every column of a webhook has a place in it."""

from __future__ import annotations

from typing import Any

import pytest

from webhooks_app.api.serializers import NewWebhookSerializer, WebhookChangesSerializer, WebhookSerializer
from webhooks_app.models import Webhook
from webhooks_app.models.webhook_settings import SETTING_COLUMNS, WEBHOOK_SETTINGS, WebhookSetting

from ..admin.conftest import Page, superuser
from ..portal.conftest import Customer, amina
from ..support.rows import make_webhook

__all__ = ["amina", "superuser"]

NO_SETTINGS = {
    *("id", "created_at", "deleted_at", "paused_at", "status", "status_reason", "status_changed_at"),
    *("pending_url", "pending_headers", "encrypted_headers"),
}
"""The columns that nobody sets, because they say what has happened or follow from settings."""

every_setting = pytest.mark.parametrize("setting", WEBHOOK_SETTINGS, ids=[each.name for each in WEBHOOK_SETTINGS])


def test_every_column_has_a_place() -> None:
    columns = {each.name for each in Webhook._meta.concrete_fields}

    missing = sorted(columns - set(SETTING_COLUMNS) - NO_SETTINGS)

    assert not missing, (
        f"Describe {', '.join(missing)} in WEBHOOK_SETTINGS of models/webhook_settings.py, or name it in NO_SETTINGS "
        "of this test if nobody sets it."
    )
    assert {*SETTING_COLUMNS, *NO_SETTINGS} <= columns


@every_setting
def test_the_api_has_the_setting(setting: WebhookSetting) -> None:
    having = {
        each.__name__
        for each in (NewWebhookSerializer, WebhookChangesSerializer, WebhookSerializer)
        if setting.in_api in each().fields
    }

    expected = {
        *(["NewWebhookSerializer"] if setting.in_api else []),
        *(["WebhookChangesSerializer"] if setting.in_api and not setting.is_fixed else []),
        *(["WebhookSerializer"] if setting.in_api and setting.audited else []),  # neither shows nor records a secret
    }
    assert having == expected, (
        f"Add {setting.in_api} to {', '.join(sorted(expected - having))} in api/serializers.py, or correct the entry "
        f"of {setting.name} in models/webhook_settings.py."
    )


@pytest.mark.django_db
@every_setting
def test_the_pages_have_the_setting(superuser: Page, amina: Customer, setting: WebhookSetting) -> None:
    webhook = make_webhook(amina.user, signatures=["native"])
    pages: dict[str, Any] = {
        "the console's form of a new webhook": superuser.get("webhook", "add").context["adminform"].form,
        "the console's form of a webhook": superuser.settings_of(webhook).context["adminform"].form,
        "the customers' form of settings": amina.get("webhook-settings", webhook.pk).context["form"],
    }
    # What removes a signature is asked only of a webhook that has one.
    asked = {name: set(setting.inputs) - ({"removes_signatures"} if "new" in name else set()) for name in pages}

    missing = [name for name, form in pages.items() if not asked[name] <= form.fields.keys()]

    assert missing == [name for name in pages if setting.is_fixed and "new" not in name], (
        f"{setting.name} is not shown there as its entry in models/webhook_settings.py says."
    )
