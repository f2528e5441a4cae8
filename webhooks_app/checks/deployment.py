"""Checks of ``manage.py check --deploy``: what is fine on a developer's machine and nowhere else."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.core import checks

from ..conf import settings
from .settings import TAG

CACHES_OF_ONE_PROCESS = (
    "django.core.cache.backends.locmem.LocMemCache",
    "django.core.cache.backends.dummy.DummyCache",
)


@checks.register(TAG, checks.Tags.security, deploy=True)
def check_http(**kwargs: Any) -> list[checks.CheckMessage]:
    if django_settings.DEBUG or not settings.ALLOW_HTTP:
        return []
    return [
        checks.Warning(
            "WEBHOOKS_ALLOW_HTTP is on: events may travel in plain text, and anybody on the way can read them.",
            hint="Turn it off where DEBUG is off.",
            id="webhooks_app.W005",
        )
    ]


@checks.register(TAG, checks.Tags.security, deploy=True)
def check_allowed_networks(**kwargs: Any) -> list[checks.CheckMessage]:
    networks = settings.ALLOWED_NETWORKS
    if django_settings.DEBUG or not networks or not isinstance(networks, list | tuple):
        return []
    return [
        checks.Warning(
            f"WEBHOOKS_ALLOWED_NETWORKS lets webhooks reach {', '.join(map(str, networks))}: "
            "whoever may register one can send requests into that network.",
            hint="Leave out what your integrators do not need, 127.0.0.0/8 and ::1 first of all.",
            id="webhooks_app.W006",
        )
    ]


@checks.register(TAG, checks.Tags.security, deploy=True)
def check_encryption_keys(**kwargs: Any) -> list[checks.CheckMessage]:
    if settings.ENCRYPTION_KEYS:
        return []
    return [
        checks.Warning(
            "WEBHOOKS_ENCRYPTION_KEYS is empty: the webhooks' secrets are encrypted with a key made from SECRET_KEY, "
            "and are lost with it.",
            hint="Make one: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'",
            id="webhooks_app.W007",
        )
    ]


@checks.register(TAG, deploy=True)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    backend = django_settings.CACHES.get("default", {}).get("BACKEND", "")
    if backend not in CACHES_OF_ONE_PROCESS:
        return []
    return [
        checks.Warning(
            f"The default cache ({backend.rpartition('.')[2]}) is not shared between processes: "
            "the API's rate limits count in each process for itself, or not at all.",
            hint="Use a shared one, such as django.core.cache.backends.redis.RedisCache.",
            id="webhooks_app.W008",
        )
    ]
