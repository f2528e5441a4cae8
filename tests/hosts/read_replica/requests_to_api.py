"""Every operation of the API."""

from django.test import Client
from subjects import DATA, EVENT_TYPE, URL, Subject

from webhooks_app.api.routers import ApiRouter

CALLS = {
    "webhooks.list": lambda s: ("get", "webhooks", s.webhook and None),
    "webhooks.create": lambda s: ("post", "webhooks", {"url": URL, "events": [EVENT_TYPE]}),
    "webhooks.retrieve": lambda s: ("get", f"webhooks/{s.webhook.pk}", None),
    "webhooks.partial_update": lambda s: ("patch", f"webhooks/{s.webhook.pk}", {"url": f"{URL}new"}),
    "webhooks.destroy": lambda s: ("delete", f"webhooks/{s.webhook.pk}", None),
    "webhooks.test": lambda s: ("post", "webhooks/test", {"webhook_id": s.webhook.pk, "event_type": EVENT_TYPE}),
    "webhooks.verify": lambda s: ("post", f"webhooks/{s.unverified.pk}/verify", None),
    "webhooks.rotate_secret": lambda s: ("post", f"webhooks/{s.webhook.pk}/rotate-secret", None),
    "webhooks.activate_secret": lambda s: ("post", f"webhooks/{s.rotated.pk}/activate-secret", None),
    "webhooks.withdraw_secret": lambda s: ("post", f"webhooks/{s.rotated.pk}/withdraw-secret", None),
    "webhooks.revoke_previous_secret": lambda s: ("post", f"webhooks/{s.rotated.pk}/revoke-previous-secret", None),
    "webhooks.disable": lambda s: ("post", f"webhooks/{s.webhook.pk}/disable", None),
    "webhooks.pause": lambda s: ("post", f"webhooks/{s.webhook.pk}/pause", None),
    "webhooks.resume": lambda s: ("post", f"webhooks/{s.paused.pk}/resume", None),
    "webhooks.enable": lambda s: ("post", f"webhooks/{s.disabled.pk}/enable", None),
    "webhooks.choices": lambda s: ("get", "webhooks/choices", None),
    "webhooks.try_filter": lambda s: ("post", f"webhooks/{s.webhook.pk}/try-filter", {"event_id": s.event.pk}),
    "webhooks.mails": lambda s: ("get", "webhooks/mails", None),
    "webhooks.choose_mails": lambda s: ("patch", "webhooks/mails", {"mails": "daily"}),
    "webhooks.deliveries": lambda s: ("get", f"webhooks/{s.delivery.webhook_id}/deliveries", None),
    "webhooks.audit": lambda s: ("get", f"webhooks/{s.paused.pk}/audit", None),
    "events.list": lambda s: ("get", "events", s.event and None),
    "events.create": lambda s: ("post", "events", {"type": EVENT_TYPE, "owner": str(s.owner.pk), "data": DATA}),
    "events.retrieve": lambda s: ("get", f"events/{s.event.pk}", None),
    "events.decisions": lambda s: ("get", f"events/{s.event.pk}/decisions", None),
    "deliveries.list": lambda s: ("get", "deliveries", s.delivery and None),
    "deliveries.retrieve": lambda s: ("get", f"deliveries/{s.delivery.pk}", None),
    "deliveries.redeliver": lambda s: ("post", f"deliveries/{s.delivery.pk}/redeliver", None),
    "deliveries.retry": lambda s: ("post", f"deliveries/{s.waiting.pk}/retry", None),
    "deliveries.redeliver_selection": lambda s: ("post", "deliveries/redeliver", {"delivery_ids": [s.delivery.pk]}),
    "replays.list": lambda s: ("get", "replays", s.replay and None),
    "replays.create": lambda s: ("post", "replays", {"webhook_id": s.delivery.webhook_id, "states": ["succeeded"]}),
    "replays.retrieve": lambda s: ("get", f"replays/{s.replay.pk}", None),
    "replays.start": lambda s: ("post", f"replays/{s.replay.pk}/start", None),
    "replays.pause": lambda s: ("post", f"replays/{s.running.pk}/pause", None),
    "replays.resume": lambda s: ("post", f"replays/{s.stopped.pk}/resume", None),
    "replays.cancel": lambda s: ("post", f"replays/{s.replay.pk}/cancel", None),
    "event-types.list": lambda s: ("get", "event-types", None),
    "event-types.retrieve": lambda s: ("get", f"event-types/{EVENT_TYPE}", None),
    "openapi": lambda s: ("get", "openapi.json", None),
    "docs": lambda s: ("get", "docs", None),
}


def names():
    """Return the names of all operations."""
    operations = {f"{prefix}.{action}" for prefix, view, _ in ApiRouter().registry for action in view.operations}
    return operations | {"openapi", "docs"}


def problem(name):
    """Call an operation for a new owner. Return what was wrong, or "" after a success."""
    subject = Subject()
    method, path, body = CALLS[name](subject)
    _, key = subject.service_key if name == "events.create" else subject.key
    headers = {"Authorization": f"Bearer {key}"}
    answer = getattr(Client(), method)(f"/v1/{path}", body, content_type="application/json", headers=headers)
    if not 200 <= answer.status_code < 300:
        return f"{answer.status_code} {answer.content[:500].decode()}"
    if name.endswith((".list", ".deliveries", ".audit", ".decisions")) and not answer.json()["results"]:
        return "empty"
    if name == "deliveries.redeliver_selection" and answer.json()["refused"]:
        return answer.content.decode()
    return ""
