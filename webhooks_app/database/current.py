"""Rows as they are now: from the database that the router names for writes. A replica lags behind."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import models, router

Rows = TypeVar("Rows", bound="models.Manager[Any] | models.QuerySet[Any]")


def current(rows: Rows, **hints: Any) -> Rows:
    """Return a manager or QuerySet of any model, such as the host's users, on the database for writes.

    What the app reads to decide or to write, it reads through this function. Its own models do so by themselves, see
    ``BaseQuerySet``. ``hints`` are those of Django's database routers.
    """
    using = router.db_for_write(rows.model, **hints)
    on_it: Any = rows.db_manager(using) if isinstance(rows, models.Manager) else rows.using(using)
    return on_it  # type: ignore[no-any-return]
