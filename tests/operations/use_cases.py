"""Every use case, with its call, its right, its limit and a state that refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.utils import timezone

from webhooks_app import register_webhook, send_test_event
from webhooks_app.models import Delivery, Problem, QueueEntry, Replay, Webhook
from webhooks_app.operations import lifecycle, problems, replays, rights, rotation
from webhooks_app.operations.actors import BaseActor
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.operations.rights import Right
from webhooks_app.operations.sending import redeliver, retry

from ..replays.conftest import emit_with
from ..support.rows import EVENT_TYPE, URL, emit_one, end_deliveries, make_problem, plan_replay, unverified

REPLAYED_SINCE = timedelta(hours=1)


def nothing(subject: Any) -> None:
    """Do nothing."""


def itself(webhook: Webhook) -> Any:
    return webhook


@dataclass(frozen=True, kw_only=True)
class UseCase:
    """``make`` returns the row for ``call``; ``spoil`` changes it to a state that refuses the call."""

    call: Callable[[Any, BaseActor], object]
    right: Right
    action: str
    make: Callable[[Webhook], Any] = itself
    spoil: Callable[[Any], object] | None = field(default=Webhook.soft_delete)
    limit: str = ""


def paused(webhook: Webhook) -> Webhook:
    webhook.pause()
    return webhook


def disabled(webhook: Webhook) -> Webhook:
    webhook.disable("By hand.")
    return webhook


def rotated(webhook: Webhook) -> Webhook:
    webhook.rotate_secret()
    return webhook


def prepared(webhook: Webhook) -> Webhook:
    webhook.rotate_secret(activate_at=timezone.now() + timedelta(days=1))
    return webhook


def delivered(webhook: Webhook) -> Delivery:
    event = emit_one(webhook.owner)
    end_deliveries(webhook.deliveries, state="given_up")
    return webhook.deliveries.get(event=event)


def waiting(webhook: Webhook) -> Delivery:
    delivery = emit_one(webhook.owner).deliveries.get()
    QueueEntry.objects.filter(pk=delivery.pk).update(due_at=timezone.now() + timedelta(hours=1))
    return delivery


def tested(webhook: Webhook) -> Delivery:
    delivery = send_test_event(webhook, EVENT_TYPE)
    end_deliveries(webhook.deliveries, state="given_up")
    return Delivery.objects.get(pk=delivery.pk)


def tested_in_vain(webhook: Webhook) -> Delivery:
    delivery = send_test_event(webhook, EVENT_TYPE)
    QueueEntry.objects.filter(pk=delivery.pk).update(attempt=1, due_at=timezone.now() + timedelta(hours=1))
    return delivery


def ready(webhook: Webhook) -> Replay:
    emit_with(webhook, "given_up")
    return plan_replay(webhook, since=timezone.now() - REPLAYED_SINCE)


def running(webhook: Webhook) -> Replay:
    replay = ready(webhook)
    replay.start()
    return replay


def paused_replay(webhook: Webhook) -> Replay:
    replay = running(webhook)
    replay.pause()
    return replay


def seen(webhook: Webhook) -> Problem:
    return make_problem(webhook)


def ignored(webhook: Webhook) -> Problem:
    problem = seen(webhook)
    problem.ignore()
    return problem


def resolve(problem: Problem) -> None:
    type(problem).objects.filter(pk=problem.pk).update(state=Problem.State.RESOLVED)


def delete_webhook_of(row: Any) -> None:
    row.webhook.soft_delete()


USE_CASES = {
    "register": UseCase(
        call=lambda webhook, actor: register_webhook(
            owner=webhook.owner, url=URL, event_types=[EVENT_TYPE], actor=actor
        ),
        right=rights.REGISTER_WEBHOOK,
        action="webhook.created",
        spoil=None,
        limit="PROBE",
    ),
    "update": UseCase(
        call=lambda webhook, actor: update_webhook(
            webhook, url=f"{webhook.pending_url or webhook.url}/more", actor=actor
        ),
        right=rights.UPDATE_WEBHOOK,
        action="webhook.changed",
        limit="VERIFICATION",
    ),
    "delete": UseCase(
        call=lambda webhook, actor: lifecycle.delete(webhook, actor=actor),
        right=rights.DELETE_WEBHOOK,
        action="webhook.deleted",
    ),
    "pause": UseCase(
        call=lambda webhook, actor: lifecycle.pause(webhook, actor=actor),
        right=rights.PAUSE_WEBHOOK,
        action="webhook.paused",
    ),
    "resume": UseCase(
        call=lambda webhook, actor: lifecycle.resume(webhook, actor=actor),
        right=rights.PAUSE_WEBHOOK,
        action="webhook.resumed",
        make=paused,
    ),
    "disable": UseCase(
        call=lambda webhook, actor: lifecycle.disable(webhook, actor=actor),
        right=rights.DISABLE_WEBHOOK,
        action="webhook.disabled",
    ),
    "enable": UseCase(
        call=lambda webhook, actor: lifecycle.enable(webhook, actor=actor),
        right=rights.DISABLE_WEBHOOK,
        action="webhook.enabled",
        make=disabled,
        limit="VERIFICATION",
    ),
    "verify": UseCase(
        call=lambda webhook, actor: start_verification(webhook, actor=actor),
        right=rights.VERIFY_WEBHOOK,
        action="webhook.verification_started",
        make=unverified,
        spoil=disabled,
        limit="VERIFICATION",
    ),
    "rotate the secret": UseCase(
        call=lambda webhook, actor: rotation.rotate_secret(webhook, actor=actor),
        right=rights.ROTATE_SECRET,
        action="webhook.secret_rotated",
    ),
    "activate the secret": UseCase(
        call=lambda webhook, actor: rotation.activate_secret(webhook, actor=actor),
        right=rights.ROTATE_SECRET,
        action="webhook.secret_activated",
        make=prepared,
    ),
    "withdraw the secret": UseCase(
        call=lambda webhook, actor: rotation.withdraw_secret(webhook, actor=actor),
        right=rights.ROTATE_SECRET,
        action="webhook.secret_withdrawn",
        make=prepared,
    ),
    "revoke the previous secret": UseCase(
        call=lambda webhook, actor: rotation.revoke_previous_secret(webhook, actor=actor),
        right=rights.ROTATE_SECRET,
        action="webhook.previous_secret_revoked",
        make=rotated,
    ),
    "send a test": UseCase(
        call=lambda webhook, actor: send_test_event(webhook, EVENT_TYPE, actor=actor),
        right=rights.TEST_WEBHOOK,
        action="webhook.tested",
        spoil=paused,
        limit="TEST",
    ),
    "redeliver": UseCase(
        call=lambda delivery, actor: redeliver(delivery, actor=actor),
        right=rights.REDELIVER,
        action="delivery.redelivered",
        make=delivered,
        spoil=delete_webhook_of,
    ),
    "redeliver a test": UseCase(
        call=lambda delivery, actor: redeliver(delivery, actor=actor),
        right=rights.REDELIVER,
        action="delivery.redelivered",
        make=tested,
        spoil=lambda delivery: delivery.webhook.pause(),
        limit="TEST",
    ),
    "retry": UseCase(
        call=lambda delivery, actor: retry(delivery, actor=actor),
        right=rights.REDELIVER,
        action="delivery.retried",
        make=waiting,
        spoil=delete_webhook_of,
    ),
    "retry a test": UseCase(
        call=lambda delivery, actor: retry(delivery, actor=actor),
        right=rights.REDELIVER,
        action="delivery.retried",
        make=tested_in_vain,
        spoil=lambda delivery: delivery.webhook.pause(),
        limit="TEST",
    ),
    "plan a replay": UseCase(
        call=lambda webhook, actor: replays.plan(webhook, actor=actor, rate=5),
        right=rights.REPLAY,
        action="replay.planned",
    ),
    "recover missed events": UseCase(
        call=lambda webhook, actor: replays.recover_missed(webhook, actor=actor),
        right=rights.REPLAY,
        action="replay.planned",
    ),
    "start a replay": UseCase(
        call=lambda replay, actor: replays.start(replay, actor=actor),
        right=rights.REPLAY,
        action="replay.started",
        make=ready,
        spoil=delete_webhook_of,
    ),
    "pause a replay": UseCase(
        call=lambda replay, actor: replays.pause(replay, actor=actor),
        right=rights.REPLAY,
        action="replay.paused",
        make=running,
        spoil=Replay.cancel,
    ),
    "resume a replay": UseCase(
        call=lambda replay, actor: replays.resume(replay, actor=actor),
        right=rights.REPLAY,
        action="replay.resumed",
        make=paused_replay,
        spoil=Replay.cancel,
    ),
    "cancel a replay": UseCase(
        call=lambda replay, actor: replays.cancel(replay, actor=actor),
        right=rights.REPLAY,
        action="replay.cancelled",
        make=ready,
        spoil=Replay.cancel,
    ),
    "acknowledge a problem": UseCase(
        call=lambda problem, actor: problems.acknowledge(problem, actor=actor),
        right=rights.HANDLE_PROBLEM,
        action="problem.acknowledged",
        make=seen,
        spoil=resolve,
    ),
    "ignore a problem": UseCase(
        call=lambda problem, actor: problems.ignore(problem, actor=actor),
        right=rights.HANDLE_PROBLEM,
        action="problem.ignored",
        make=seen,
        spoil=Problem.ignore,
    ),
    "reopen a problem": UseCase(
        call=lambda problem, actor: problems.reopen(problem, actor=actor),
        right=rights.HANDLE_PROBLEM,
        action="problem.reopened",
        make=ignored,
        spoil=resolve,
    ),
}
