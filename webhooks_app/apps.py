"""The Django app, put together."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class WebhooksConfig(AppConfig):
    name = "webhooks_app"
    verbose_name = _("Webhooks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks, tasks  # noqa: F401, PLC0415
        from .conf import settings  # noqa: PLC0415
        from .event_types import OPERATIONAL_EVENT_TYPES, PRESENTATION_EVENT_TYPES, registry  # noqa: PLC0415
        from .health.telling import emit_disabled  # noqa: PLC0415
        from .signals import deliveries_created, webhook_being_disabled  # noqa: PLC0415

        if settings.BUILTIN_EVENT_TYPES:
            registry.register(*PRESENTATION_EVENT_TYPES)
        registry.register(*OPERATIONAL_EVENT_TYPES)
        autodiscover_modules("webhook_events")
        deliveries_created.connect(tasks.wake_workers, dispatch_uid="webhooks_app.wake_workers")
        webhook_being_disabled.connect(emit_disabled, dispatch_uid="webhooks_app.emit_disabled")
