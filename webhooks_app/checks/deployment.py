"""Checks of ``manage.py check --deploy``: what is fine on a developer's machine and nowhere else."""

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
from .settings import MAKE_A_KEY, TAG, problem_with

CACHES_OF_ONE_PROCESS = (LocMemCache, DummyCache)


@checks.register(TAG, checks.Tags.security, deploy=True)
def check_http(**kwargs: Any) -> list[checks.CheckMessage]:
    if django_settings.DEBUG or settings.ALLOW_HTTP is not True:
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
    if django_settings.DEBUG or problem_with("ALLOWED_NETWORKS") or not networks:
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
    keys = settings.ENCRYPTION_KEYS
    if problem_with("ENCRYPTION_KEYS") or (keys and keys[0] != DERIVED):
        return []
    return [
        checks.Warning(
            "WEBHOOKS_ENCRYPTION_KEYS begins with no key of its own: the webhooks' secrets are encrypted with one made "
            "from SECRET_KEY, and are lost with it.",
            hint=f'{MAKE_A_KEY} Put it before "{DERIVED}" in the list, and leave that in until '
            "`manage.py reencrypt_webhook_secrets` has run.",
            id="webhooks_app.W007",
        )
    ]


@checks.register(TAG, deploy=True)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    cache = caches[DEFAULT_CACHE_ALIAS]
    if isinstance(cache, CACHES_OF_ONE_PROCESS):
        problem = "is not shared between processes: rate limits count in each process for itself, or not at all."
    elif isinstance(cache, FileBasedCache):
        problem = "has no step that is done whole or not at all: many requests at once can exceed the rate limits."
    else:
        return []
    return [
        checks.Warning(
            f"The default cache ({type(cache).__name__}) {problem}",
            hint="Use a shared one that can count, such as django.core.cache.backends.redis.RedisCache.",
            id="webhooks_app.W008",
        )
    ]
