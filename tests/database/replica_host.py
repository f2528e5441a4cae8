"""A project with the router in Django's documentation. Its replica is never updated after the first copy.

The argument is a directory for the databases. The exit status is an error if a flow does not work.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import django
from django.conf import settings

DIRECTORY = Path(sys.argv[1])
WRITTEN = sys.argv[2]
"""The database that the router returns for writes."""


class Router:
    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return WRITTEN

    def allow_relation(self, first: Any, second: Any, **hints: Any) -> bool:
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return True


def configure() -> None:
    options = {"transaction_mode": "IMMEDIATE", "timeout": 20}
    settings.configure(
        SECRET_KEY="host",
        USE_TZ=True,
        ROOT_URLCONF="tests.urls",
        ALLOWED_HOSTS=["testserver"],
        DATABASES={"default": {}}
        | {
            alias: {"ENGINE": "django.db.backends.sqlite3", "NAME": str(DIRECTORY / alias), "OPTIONS": options}
            for alias in (WRITTEN, "replica")
        },
        DATABASE_ROUTERS=["__main__.Router"],
        SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "django.contrib.messages",
            "django.contrib.staticfiles",
            "rest_framework",
            "drf_spectacular",
            "drf_spectacular_sidecar",
            "webhooks_app",
            "webhooks_app.demo",
        ],
        STATIC_URL="static/",
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        WEBHOOKS_BUILTIN_EVENT_TYPES=True,
    )
    django.setup()


def main() -> None:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.test import Client

    from webhooks_app import emit
    from webhooks_app.maintenance.jobs import run_due
    from webhooks_app.models import ApiKey, Delivery, Event, Webhook
    from webhooks_app.testing import Webhooks

    call_command("check", fail_level="WARNING")
    for alias in {WRITTEN, "replica"}:
        call_command("migrate", database=alias, verbosity=0)
        root = get_user_model()(pk=1, username="root", password="!", is_staff=True, is_superuser=True)  # as replicated
        root.save(using=alias, force_insert=True)
    webhooks = Webhooks()

    key = command("create_api_key", "alice", "--create-user").strip()
    alice = get_user_model().objects.using(WRITTEN).get(username="alice")
    api = {"Authorization": f"Bearer {key}"}
    client = Client()
    body = {"url": "https://receiver.example.com/", "events": ["file.deleted"]}
    created = client.post("/v1/webhooks", body, content_type="application/json", headers=api)
    assert created.status_code == 201, created.content
    webhook_id = created.json()["id"]

    with webhooks:
        [handshake] = webhooks.deliver()
        assert handshake.event.is_verification
        assert Webhook.objects.get().status == "active"
        event = emit("file.deleted", {"file_id": "file_1", "user_id": "user_1", "filename": "a"}, owner=alice)
        webhooks.receiver.answers = (500, 200)
        assert [request.event.type for request in webhooks.deliver()] == [
            "file.deleted",
            "webhook.retry",
            "file.deleted",
        ]

    delivery = Delivery.objects.get(kind="event")
    assert (delivery.state, delivery.webhook.owner, delivery.event) == ("succeeded", alice, event)
    for method, path, expected in [
        ("get", f"/v1/webhooks/{webhook_id}", 200),
        ("get", "/v1/webhooks", 200),
        ("get", "/v1/events", 200),
        ("get", f"/v1/events/{event.pk}", 200),
        ("get", f"/v1/events/{event.pk}/decisions", 200),
        ("get", "/v1/deliveries", 200),
        ("get", f"/v1/deliveries/{delivery.pk}", 200),
        ("post", f"/v1/deliveries/{delivery.pk}/redeliver", 202),
    ]:
        response = getattr(client, method)(path, content_type="application/json", headers=api)
        assert response.status_code == expected, (method, path, response.status_code, response.content)

    client.force_login(get_user_model().objects.using(WRITTEN).get(username="root"))
    for model, row in [
        ("webhook", webhook_id),
        ("delivery", delivery.pk),
        ("event", event.pk),
        ("apikey", ApiKey.objects.get().pk),
    ]:
        for page in (f"/admin/webhooks_app/{model}/", f"/admin/webhooks_app/{model}/{row}/change/"):
            response = client.get(page)
            assert response.status_code == 200, (page, response.status_code)
    assert "alice" in client.get(f"/admin/webhooks_app/webhook/{webhook_id}/change/").content.decode()
    assert client.get("/admin/webhooks_app/").status_code == 200
    assert client.delete(f"/v1/webhooks/{webhook_id}", headers=api).status_code == 204

    from webhooks_app.database.clock import DatabaseClock

    run_due(WRITTEN, DatabaseClock(WRITTEN))
    call_command("prune_webhooks", verbosity=0)
    for model in (Webhook, Event, Delivery, ApiKey):
        assert not model.objects.using("replica").exists()


def command(*arguments: str) -> str:
    from django.core.management import call_command

    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


if __name__ == "__main__":
    configure()
    main()
