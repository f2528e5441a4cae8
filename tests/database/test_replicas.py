"""Reads of the app's own models. The host ``read_replica`` calls everything beside a real copy."""

from __future__ import annotations

from django.apps import apps

from webhooks_app.models.base import BaseQuerySet


def test_all_models_read_from_the_database_for_writes() -> None:
    models = apps.get_app_config("webhooks_app").get_models()

    plain = [
        model
        for model in models
        for manager in (model._default_manager, model._base_manager)
        if not isinstance(manager.all(), BaseQuerySet)
    ]

    assert plain == []
