"""Checks of the database and of Django's settings, and those for production that run with ``--deploy``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core import checks
from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.dummy import DummyCache
from django.core.cache.backends.filebased import FileBasedCache
from django.core.cache.backends.locmem import LocMemCache
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.translation import gettext, ngettext

from ..conf import CHECKS_TAG, settings
from ..database.dialects import SUPPORTED_SYSTEMS, dialect_for, is_supported
from ..encryption import DERIVED
from ..models import Delivery, Webhook
from .contents import MAKE_A_KEY
from .registration import register
from .settings import problem_with

WORKER_CONNECTIONS = 4
"""The connections of a worker process: claims, results, maintenance, and the task that it runs."""

PSYCOPG_POOL_SIZE = 4
"""psycopg_pool's default of ``min_size``, which is also its default of ``max_size``."""


@register(CHECKS_TAG)
def check_time_zones(**kwargs: Any) -> list[checks.CheckMessage]:
    if django_settings.USE_TZ:
        return []
    return [
        checks.Error(
            gettext("USE_TZ is False: the times of events and retries are ambiguous without a time zone."),
            hint=gettext("Set USE_TZ = True, which is Django's default."),
            id="webhooks_app.E012",
        )
    ]


@register(CHECKS_TAG)
def check_router(**kwargs: Any) -> list[checks.CheckMessage]:
    using = router.db_for_write(Delivery)
    return [*_divided(using), *_without_tables(using)]


def _divided(using: str) -> Iterator[checks.CheckMessage]:
    ours = apps.get_app_config("webhooks_app").get_models()
    owner: Any = Webhook._meta.get_field("owner").related_model
    if isinstance(owner, str):  # Another check reports the unknown owner model.
        return
    for model in (*ours, owner, get_user_model()):
        if (elsewhere := router.db_for_write(model)) != using:
            yield checks.Error(
                gettext("A database router sends %(model)s to '%(elsewhere)s' but deliveries to '%(using)s'.")
                % {"model": model._meta.label, "elsewhere": elsewhere, "using": using},
                hint=gettext(
                    "Route all models of webhooks_app, the owner model and the user model to the same database."
                ),
                id="webhooks_app.E013",
            )
            return


def _without_tables(using: str) -> Iterator[checks.CheckMessage]:
    if not router.allow_migrate(using, "webhooks_app", model_name="delivery"):
        yield checks.Error(
            gettext(
                "A database router sends the rows of webhooks_app to '%(using)s', but allows no migration of it there."
            )
            % {"using": using},
            hint=gettext(
                "Return True from allow_migrate for webhooks_app in '%(using)s', or route it to another database."
            )
            % {"using": using},
            id="webhooks_app.E022",
        )


@register(CHECKS_TAG)
def check_database_system(**kwargs: Any) -> list[checks.CheckMessage]:
    if (connection := _connection()) is None or is_supported(connection):
        return []
    return [
        checks.Error(
            gettext("The database '%(alias)s' is %(system)s, which is not supported.")
            % {"alias": connection.alias, "system": connection.display_name},
            hint=gettext("Use one of %(names)s.") % {"names": ", ".join(SUPPORTED_SYSTEMS)},
            id="webhooks_app.E017",
        )
    ]


@register(CHECKS_TAG)
def check_sqlite(**kwargs: Any) -> list[checks.CheckMessage]:
    if (connection := _connection()) is None or not dialect_for(connection).begins_by_reading(connection):
        return []
    return [
        checks.Warning(
            gettext(
                "SQLite transactions start as readers: a write fails at once with "
                '"database is locked" while a worker is writing.'
            ),
            hint=gettext('Set DATABASES["default"]["OPTIONS"] = {"transaction_mode": "IMMEDIATE", "timeout": 20}.'),
            id="webhooks_app.W004",
        )
    ]


@register(CHECKS_TAG)
def check_pool(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return a warning for a pool of the driver in which a worker would wait for its own connections."""
    connection = _connection()
    size = _pool_size(connection.settings_dict["OPTIONS"].get("pool")) if connection else None
    if size is None or size >= WORKER_CONNECTIONS:
        return []
    return [
        checks.Warning(
            ngettext(
                "The connection pool of the database '%(alias)s' has %(size)s connection, but a worker process needs "
                "%(least)s.",
                "The connection pool of the database '%(alias)s' has %(size)s connections, but a worker process needs "
                "%(least)s.",
                size,
            )
            % {"alias": connection.alias if connection else "", "size": size, "least": WORKER_CONNECTIONS},
            hint=gettext('Use at least %(least)s as "max_size" in OPTIONS["pool"], in the settings of the workers.')
            % {"least": WORKER_CONNECTIONS},
            id="webhooks_app.W016",
        )
    ]


def _pool_size(pool: Any) -> int | None:
    """Return the maximum size of a pool of psycopg_pool, or None without one, or if its options are unknown."""
    if not pool:
        return None
    options = pool if isinstance(pool, dict) else {}
    least = options.get("min_size", PSYCOPG_POOL_SIZE)
    most = options.get("max_size")
    size = least if most is None else most
    return size if isinstance(size, int) else None


@register(CHECKS_TAG)
def check_packages_of_the_api(**kwargs: Any) -> list[checks.CheckMessage]:
    """Return a warning for each package of a mounted API that is missing from INSTALLED_APPS."""
    if not getattr(django_settings, "ROOT_URLCONF", None) or not _has_api(get_resolver().url_patterns):
        return []
    return [*_without_rest_framework(), *_without_page()]


def _without_rest_framework() -> Iterator[checks.CheckMessage]:
    if not apps.is_installed("rest_framework"):
        yield checks.Warning(
            gettext("The REST API is in the URLs, but Django REST framework is not in INSTALLED_APPS."),
            hint=gettext('Add "%(app)s" to INSTALLED_APPS.') % {"app": "rest_framework"},
            id="webhooks_app.W015",
        )


def _without_page() -> Iterator[checks.CheckMessage]:
    could_have = bool(django_settings.TEMPLATES and find_spec("drf_spectacular_sidecar"))
    if could_have and not apps.is_installed("drf_spectacular_sidecar"):
        yield checks.Warning(
            gettext("The page /docs of the REST API is not found, because its files are not in INSTALLED_APPS."),
            hint=gettext('Add "%(app)s" to INSTALLED_APPS.') % {"app": "drf_spectacular_sidecar"},
            id="webhooks_app.W014",
        )


def _has_api(patterns: Iterable[URLPattern | URLResolver]) -> bool:
    """Return True if one of the URL patterns leads to a view set of the API, or to a host's subclass."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if _has_api(pattern.url_patterns):
                return True
        elif any(each.__module__.startswith("webhooks_app.api.") for each in _bases(pattern.callback)):
            return True
    return False


def _bases(view: Any) -> tuple[type, ...]:
    view_class = getattr(view, "cls", None)
    return view_class.__mro__ if isinstance(view_class, type) else ()


def _connection() -> BaseDatabaseWrapper | None:
    using = router.db_for_write(Delivery)
    if using not in connections:  # Django reports a missing database.
        return None
    return connections[using]


CACHES_OF_ONE_PROCESS = (LocMemCache, DummyCache)


@register(CHECKS_TAG, checks.Tags.security, deploy=True)
def check_http(**kwargs: Any) -> list[checks.CheckMessage]:
    if django_settings.DEBUG or settings.ALLOW_HTTP is not True:
        return []
    return [
        checks.Warning(
            gettext("WEBHOOKS_ALLOW_HTTP is True: events may be sent unencrypted, readable on the network."),
            hint=gettext("Set it to False in production."),
            id="webhooks_app.W005",
        )
    ]


@register(CHECKS_TAG, checks.Tags.security, deploy=True)
def check_allowed_networks(**kwargs: Any) -> list[checks.CheckMessage]:
    networks = settings.ALLOWED_NETWORKS
    if django_settings.DEBUG or problem_with("ALLOWED_NETWORKS") or not networks:
        return []
    return [
        checks.Warning(
            gettext(
                "WEBHOOKS_ALLOWED_NETWORKS contains %(networks)s: anyone who may register a webhook can send requests "
                "to these networks."
            )
            % {"networks": ", ".join(map(str, networks))},
            hint=gettext("Remove every network that your integrators do not need, especially 127.0.0.0/8 and ::1."),
            id="webhooks_app.W006",
        )
    ]


@register(CHECKS_TAG, checks.Tags.security, deploy=True)
def check_encryption_keys(**kwargs: Any) -> list[checks.CheckMessage]:
    keys = settings.ENCRYPTION_KEYS
    if problem_with("ENCRYPTION_KEYS") or (keys and keys[0] != DERIVED):
        return []
    return [
        checks.Warning(
            gettext(
                "The first of WEBHOOKS_ENCRYPTION_KEYS is derived from SECRET_KEY: if SECRET_KEY changes, the secrets "
                "of all webhooks are lost."
            ),
            hint=gettext(
                'Generate one: %(command)s. Put it before "%(derived)s" in the list. Remove "%(derived)s" after '
                "`manage.py reencrypt_webhook_secrets`."
            )
            % {"command": MAKE_A_KEY, "derived": DERIVED},
            id="webhooks_app.W007",
        )
    ]


@register(CHECKS_TAG, deploy=True)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    cache = caches[DEFAULT_CACHE_ALIAS]
    if isinstance(cache, CACHES_OF_ONE_PROCESS):
        problem = gettext(
            "The default cache (%(name)s) is not shared between processes: rate limits apply to each process "
            "separately, or not at all."
        )
    elif isinstance(cache, FileBasedCache):
        problem = gettext(
            "The default cache (%(name)s) has no atomic operations: concurrent requests can exceed the rate limits."
        )
    else:
        return []
    return [
        checks.Warning(
            problem % {"name": type(cache).__name__},
            hint=gettext(
                "Use a shared cache with atomic operations, such as django.core.cache.backends.redis.RedisCache."
            ),
            id="webhooks_app.W008",
        )
    ]
