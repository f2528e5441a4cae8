"""The configuration of the app."""

from __future__ import annotations

import sys

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.db.models.signals import pre_delete
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from .owners import owner_model, owner_model_name


class WebhooksConfig(AppConfig):
    name = "webhooks_app"
    verbose_name = _("Webhooks")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Migrations refer to this setting by name, as to AUTH_USER_MODEL, even if the project does not set it.
        django_settings.WEBHOOKS_OWNER_MODEL = owner_model_name()
        super().import_models()

    def ready(self) -> None:
        from . import checks  # noqa: F401, PLC0415
        from .conf import settings  # noqa: PLC0415
        from .event_types import OPERATIONAL_EVENT_TYPES, registry  # noqa: PLC0415
        from .maintenance.announcements import announce_refused_url  # noqa: PLC0415
        from .maintenance.forgetting import forget_deleted  # noqa: PLC0415
        from .maintenance.notifications import emit_disabled  # noqa: PLC0415
        from .signals import deliveries_created, webhook_being_disabled, webhook_url_refused  # noqa: PLC0415
        from .wake.base import wake_workers  # noqa: PLC0415

        if "celery" in sys.modules or settings.WAKE == "celery":
            # Only a process with Celery can run the tasks, and workers import Celery first.
            from . import tasks  # noqa: F401, PLC0415
        if settings.BUILTIN_EVENT_TYPES:
            from .event_types.builtin import PRESENTATION_EVENT_TYPES  # noqa: PLC0415

            registry.register(*PRESENTATION_EVENT_TYPES)
        registry.register(*OPERATIONAL_EVENT_TYPES)
        for model in apps.get_models():
            if issubclass(model, owner_model()):  # proxies send signals of their own
                pre_delete.connect(forget_deleted, sender=model, dispatch_uid="webhooks_app.forget_deleted")
        autodiscover_modules("webhook_events")
        deliveries_created.connect(wake_workers, dispatch_uid="webhooks_app.wake_workers")
        webhook_being_disabled.connect(emit_disabled, dispatch_uid="webhooks_app.emit_disabled")
        webhook_url_refused.connect(announce_refused_url, dispatch_uid="webhooks_app.announce_refused_url")
