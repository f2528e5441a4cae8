"""Health endpoints for load balancers, Kubernetes and monitors.

They need no authentication, and their answers contain only the names of conditions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ..database.clock import DatabaseClock
from ..delivery.sql import oldest_due_at
from ..doctor.delivery import DUE_ERROR, tolerated
from ..doctor.surroundings import database_alias, has_tables
from ..models import WorkerProcess

logger = logging.getLogger("webhooks_app.probes")


def has_workers() -> bool:
    """Return True if a worker has reported itself within a minute."""
    return WorkerProcess.objects.using(database_alias()).running().exists()


def is_punctual() -> bool:
    """Return True unless a sendable delivery has been due for 5 minutes."""
    now = DatabaseClock(database_alias())()
    due_at = oldest_due_at(database_alias(), now)
    return due_at is None or now - due_at < tolerated(DUE_ERROR)


View = Callable[[HttpRequest], JsonResponse]


def _endpoint(view: View) -> View:
    """Return a public view outside of the transactions of ATOMIC_REQUESTS, which fail while a database is away."""
    view = login_not_required(never_cache(require_safe(view)))
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


@_endpoint
def live(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process answers at all."""
    return _answer()


@_endpoint
def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process can accept events and requests: the database answers and is migrated."""
    return _answer(database=has_tables)


@_endpoint
def delivery(request: HttpRequest) -> JsonResponse:
    """Answer 200 if webhooks are delivered: a worker runs, and no delivery is overdue by 5 minutes."""
    return _answer(workers=has_workers, punctual=is_punctual)


def _answer(**conditions: Callable[[], bool]) -> JsonResponse:
    found = {name: _holds(name, condition) for name, condition in conditions.items()}
    is_healthy = all(found.values())
    body = {"status": "ok" if is_healthy else "failing", "checks": found}
    return JsonResponse(body, status=200 if is_healthy else 503)


def _holds(name: str, condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (DatabaseError, InterfaceError) as error:
        logger.warning("The health check %s failed: %s", name, str(error).strip())
        return False
