"""Pages contain nothing inline, for strict Content-Security-Policies."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from webhooks_app.models import ApiKey, AuditEntry, Delivery

from ..support.rows import plan_replay
from .conftest import Page, text

pytestmark = pytest.mark.only_on("sqlite")

DATA_TYPES = {"application/json", "text/html"}


class InlineParts(HTMLParser):
    """Collects the inline scripts, styles and event handlers of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names and names.get("type") not in DATA_TYPES):
            self.found.append(tag)
        self.found += [name for name in names if name == "style" or name.startswith("on")]


@pytest.mark.parametrize(
    "page",
    [
        "webhook list",
        "webhook add",
        "webhook added",
        "webhook",
        "webhook settings",
        "webhook deliveries",
        "webhook verification",
        "confirm",
        "confirm one",
        "rotated",
        "handshake",
        "recent",
        "event types",
        "event type",
        "operations",
        "event list",
        "event",
        "delivery",
        "delivery list",
        "key list",
        "key",
        "key add",
        "replay add",
        "replay",
        "replay progress",
        "audit list",
        "audit entry",
        "history",
    ],
)
def test_nothing_is_inline(superuser: Page, delivery: Delivery, page: str) -> None:
    api_key, _ = ApiKey.objects.make(owner=superuser.user)
    replay = plan_replay(delivery.webhook)
    answers = {
        "webhook list": lambda: superuser.get("webhook"),
        "webhook add": lambda: superuser.get("webhook", "add"),
        "webhook added": lambda: superuser.post(
            "webhook", "add", audience="every", url=delivery.webhook.url, event_types="file.deleted"
        ),
        "webhook": lambda: superuser.get("webhook", "change", delivery.webhook_id),
        "webhook settings": lambda: superuser.settings_of(delivery.webhook),
        "webhook deliveries": lambda: superuser.get("webhook", "change", delivery.webhook_id, section="deliveries"),
        "webhook verification": lambda: superuser.get("webhook", "change", delivery.webhook_id, section="verification"),
        "confirm one": lambda: superuser.get("webhook", "act", delivery.webhook_id, "send_test"),
        "rotated": lambda: superuser.post("webhook", "act", delivery.webhook_id, "rotate_secret", confirmed="yes"),
        "handshake": lambda: superuser.get("webhook", "live", delivery.webhook_id, "handshake"),
        "recent": lambda: superuser.get("webhook", "live", delivery.webhook_id, "recent"),
        "event types": lambda: superuser.get("eventtypes"),
        "event type": lambda: superuser.get("webhook", "event_type", "file.deleted"),
        "operations": lambda: superuser.get("operations"),
        "event list": lambda: superuser.get("event"),
        "key list": lambda: superuser.get("apikey"),
        "confirm": lambda: superuser.act("send_test", delivery.webhook),
        "event": lambda: superuser.get("event", "change", str(delivery.event_id)),
        "delivery": lambda: superuser.get("delivery", "change", delivery.pk),
        "delivery list": lambda: superuser.get("delivery"),
        "key": lambda: superuser.get("apikey", "change", api_key.pk),
        "key add": lambda: superuser.get("apikey", "add"),
        "replay add": lambda: superuser.get("replay", "add"),
        "replay": lambda: superuser.get("replay", "change", replay.pk),
        "replay progress": lambda: superuser.get("replay", "live", replay.pk),
        "audit list": lambda: superuser.get("auditentry"),
        "audit entry": lambda: superuser.get("auditentry", "change", AuditEntry.objects.latest("pk").pk),
        "history": lambda: superuser.get("apikey", "history", api_key.pk),
    }

    parts = InlineParts()
    parts.feed(text(answers[page]()))

    assert parts.found == []
