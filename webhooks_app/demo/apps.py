"""The Django app of the demo's management commands."""

from __future__ import annotations

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "webhooks_app.demo"
    label = "webhooks_app_demo"
