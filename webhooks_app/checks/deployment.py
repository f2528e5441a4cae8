"""Checks of ``manage.py check --deploy``: settings that are suitable only for development."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.core import checks
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.filebased import FileBasedCache
from django.core.cache.backends.locmem import LocMemCache

from ..conf import settings
from ..encryption import DERIVED
from .contents import MAKE_A_KEY
from .registration import TAG, register
from .settings import problem_with

CACHES_OF_ONE_PROCESS = (LocMemCache, DummyCache)


@register(TAG, checks.Tags.security, deploy=True)
def check_http(**kwargs: Any) -> list[checks.CheckMessage]:
    if django_settings.DEBUG or settings.ALLOW_HTTP is not True:
        return []
    return [
        checks.Warning(
            "WEBHOOKS_ALLOW_HTTP is True: events may be sent unencrypted, readable on the network.",
            hint="Set it to False in production.",
            id="webhooks_app.W005",
        )
    ]


@register(TAG, checks.Tags.security, deploy=True)
def check_allowed_networks(**kwargs: Any) -> list[checks.CheckMessage]:
    networks = settings.ALLOWED_NETWORKS
    if django_settings.DEBUG or problem_with("ALLOWED_NETWORKS") or not networks:
        return []
    return [
        checks.Warning(
            f"WEBHOOKS_ALLOWED_NETWORKS contains {', '.join(map(str, networks))}: "
            "anyone who may register a webhook can send requests to these networks.",
            hint="Remove every network that your integrators do not need, especially 127.0.0.0/8 and ::1.",
            id="webhooks_app.W006",
        )
    ]


@register(TAG, checks.Tags.security, deploy=True)
def check_encryption_keys(**kwargs: Any) -> list[checks.CheckMessage]:
    keys = settings.ENCRYPTION_KEYS
    if problem_with("ENCRYPTION_KEYS") or (keys and keys[0] != DERIVED):
        return []
    return [
        checks.Warning(
            "The first of WEBHOOKS_ENCRYPTION_KEYS is derived from SECRET_KEY: if SECRET_KEY changes, the secrets of "
            "all webhooks are lost.",
            hint=f'{MAKE_A_KEY} Put it before "{DERIVED}" in the list. Remove "{DERIVED}" after '
            "`manage.py reencrypt_webhook_secrets`.",
            id="webhooks_app.W007",
        )
    ]


@register(TAG, deploy=True)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    cache = caches[DEFAULT_CACHE_ALIAS]
    if isinstance(cache, CACHES_OF_ONE_PROCESS):
        problem = "is not shared between processes: rate limits apply to each process separately, or not at all."
    elif isinstance(cache, FileBasedCache):
        problem = "has no atomic operations: concurrent requests can exceed the rate limits."
    else:
        return []
    return [
        checks.Warning(
            f"The default cache ({type(cache).__name__}) {problem}",
            hint="Use a shared cache with atomic operations, such as django.core.cache.backends.redis.RedisCache.",
            id="webhooks_app.W008",
        )
    ]
