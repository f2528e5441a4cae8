"""Grouping of failed attempts into problems, from the counts of recorded batches. Delivery writes nothing more."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

from django.db.models import Q

from ..conf import settings
from ..models import DeliveryAttempt, Problem, Webhook
from ..models.problem import MOST_OF_WEBHOOK, UNRESOLVED, Cause
from ..models.rollup import FAILED
from .rollups.folding import TalliedWebhook

logger = logging.getLogger("webhooks_app.maintenance")

DELETED_AT_A_TIME = 1000

MAX_LENGTH = 20
"""Characters of a result. Other versions of the app may know longer ones."""

HTTP_STATUS = DeliveryAttempt.Result.HTTP_STATUS.value


Known: TypeAlias = dict[Cause, Problem]


def causes(entry: TalliedWebhook) -> Mapping[Cause, int]:
    """Return the number of failed attempts by cause."""
    found: dict[Cause, int] = {}
    for name, number in entry.counters.items():
        if name.startswith(FAILED) and number > 0:
            found[Cause(name.removeprefix(FAILED)[:MAX_LENGTH])] = number
    known = {Cause(HTTP_STATUS, code): number for code, number in entry.codes.items() if number > 0}
    if known:
        rest = found.pop(Cause(HTTP_STATUS), 0) - sum(known.values())
        found |= known if rest <= 0 else {**known, Cause(HTTP_STATUS): rest}
    return found


def note_results(using: str, entries: Iterable[TalliedWebhook]) -> None:
    """Update the problems of the webhooks in the caller's transaction, which counts each entry once."""
    by_webhook: dict[str, list[TalliedWebhook]] = {}
    for entry in entries:
        if entry.has_success or causes(entry):
            by_webhook.setdefault(entry.webhook_id, []).append(entry)
    failed = {webhook_id for webhook_id, some in by_webhook.items() if any(causes(entry) for entry in some)}
    known = _known(using, failed, by_webhook.keys() - failed)
    new = failed - known.keys()
    existing = set(Webhook.objects.using(using).filter(pk__in=new).values_list("pk", flat=True)) if new else ()
    changed: dict[str, Problem] = {}
    for webhook_id in sorted(known.keys() | existing):
        problems = known.setdefault(webhook_id, {})
        for entry in by_webhook[webhook_id]:
            changed |= {problem.pk: problem for problem in _noted(problems, entry)}
    Problem.objects.using(using).save_seen(list(changed.values()))


def _known(using: str, failed: Iterable[str], succeeded: Iterable[str]) -> dict[str, Known]:
    """Return and lock all problems of webhooks with failures, and those of the others that await a success."""
    awaits_success = Q(webhook__in=list(succeeded), state__in=UNRESOLVED, succeeded_at=None)
    rows = Problem.objects.using(using).filter(Q(webhook__in=list(failed)) | awaits_success)
    known: dict[str, Known] = {}
    for problem in rows.order_by("pk").select_for_update().readable():
        known.setdefault(problem.webhook_id, {})[Cause(problem.result, problem.code)] = problem
    return known


def _noted(problems: Known, entry: TalliedWebhook) -> Iterable[Problem]:
    """Apply one batch of results, and yield the changed problems. A batch with a failure does not resolve it."""
    at, failures = entry.recorded_at, causes(entry)
    missed_from = entry.missed_from if entry.counters.get("given_up") else None
    for cause, number in failures.items():
        problem = _problem(problems, entry, cause)
        problem.note_failures(number, at, missed_from)
        yield problem
    if entry.has_success:
        others = [problem for cause, problem in problems.items() if cause not in failures]
        yield from (problem for problem in others if problem.note_success(at))


def _problem(problems: Known, entry: TalliedWebhook, cause: Cause) -> Problem:
    if cause not in problems and len(problems) >= MOST_OF_WEBHOOK:
        cause = Cause(cause.result)
    if cause not in problems:
        at = entry.recorded_at
        seen = {"first_seen_at": at, "last_seen_at": at, "opened_at": at}
        problems[cause] = Problem(webhook_id=entry.webhook_id, result=cause.result, code=cause.code, **seen)
    return problems[cause]


def forget_problems(using: str, now: datetime) -> None:
    """Delete a limited number of problems whose attempts are no longer kept."""
    before = now - timedelta(days=settings.ATTEMPT_RETENTION_DAYS)
    rows = Problem.objects.using(using).filter(last_seen_at__lt=before).order_by("last_seen_at")
    if ids := list(rows.values_list("pk", flat=True)[:DELETED_AT_A_TIME]):
        Problem.objects.using(using).filter(pk__in=ids, last_seen_at__lt=before).delete()
