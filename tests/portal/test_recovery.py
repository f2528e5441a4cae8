"""What customers see after a recovery: outcomes of now, and what is still missed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, Replay, WebhookHealth
from webhooks_app.models.health import FailingPeriod
from webhooks_app.pages.display import moment
from webhooks_app.replays.runner import advance

from ..support.rows import emit_one, end_deliveries, make_recovering, plan_replay
from .conftest import Customer
from .test_webhooks import text

pytestmark = pytest.mark.django_db


@pytest.fixture
def replay(amina: Customer) -> Replay:
    """A replay that was planned while the webhook was failing, and has delivered everything since."""
    end_deliveries(Delivery.objects.all(), state="given_up", finished_at=timezone.now())
    since = timezone.now() - timedelta(minutes=5)
    health, _ = WebhookHealth.objects.update_or_create(webhook=amina.webhook, defaults={"given_up_since": since})
    replay = plan_replay(amina.webhook, since=timezone.now() - timedelta(days=1))
    assert [FailingPeriod.from_json(kept).ended_at for kept in replay.failing] == [None]
    replay.start()
    advance("default", replay.pk, timezone.now())
    end_deliveries(Delivery.objects.pending(), state="succeeded", finished_at=timezone.now())
    health.end_period(timezone.now())
    health.last_success_at = timezone.now()
    health.save()
    replay.refresh_from_db()
    return replay


def test_a_recovery_looks_recovered(amina: Customer, replay: Replay) -> None:
    page = text(amina.get("replay", replay.pk))

    assert "Done: 1 of 1 delivered." in page
    assert "Failed from " in page
    assert "Failing since" not in page
    assert "<td>succeeded</td>" in page


def test_a_list_says_that_the_event_was_delivered_later(amina: Customer, replay: Replay) -> None:
    again = Delivery.objects.get(replay=replay)

    page = text(amina.get("deliveries", state="given_up"))

    assert "given up" in page
    assert f'<a href="{amina.url("delivery", again.pk)}">delivered ' in page


def test_the_list_can_show_only_what_is_still_missed(amina: Customer, replay: Replay) -> None:
    lost = emit_one(amina.user).deliveries.get()
    end_deliveries(Delivery.objects.filter(pk=lost.pk), state="given_up", finished_at=timezone.now())

    rows = amina.get("deliveries", missed="true").context["rows"]

    assert [row.delivery.pk for row in rows] == [lost.pk]


@pytest.mark.parametrize(("status", "name"), [("failed", "verify"), ("disabled", "enable")])
def test_a_recovery_that_cannot_start_says_so_first(amina: Customer, status: str, name: str) -> None:
    type(amina.webhook).objects.update(status=status)

    page: Any = text(amina.get("replay-new", amina.webhook.pk))

    assert 'role="alert"' in page
    assert amina.url("webhook-action", amina.webhook.pk, name) in page


def test_a_replay_of_the_service_says_so(amina: Customer, replay: Replay) -> None:
    Replay.objects.update(recovers_since=timezone.now())

    assert "Started by the service" in text(amina.get("replay", replay.pk))


def test_a_recovery_attempt_is_marked(amina: Customer) -> None:
    Delivery.objects.update(purpose="recovery")

    assert "(recovery attempt)" in text(amina.get("deliveries"))
    assert "recovery attempt" in text(amina.get("delivery", amina.delivery.pk))


def test_the_page_tells_the_next_recovery_attempt(amina: Customer) -> None:
    episode = make_recovering(amina.webhook)

    page = text(amina.get("webhook", amina.webhook.pk))

    assert (
        f"The next recovery attempt, with the oldest missed event, is {moment(episode.next_step_at, 'in 4 min')}."
        in page
    )


def test_the_page_tells_that_the_recovery_is_held_back(amina: Customer) -> None:
    make_recovering(amina.webhook)
    amina.webhook.pause()

    assert "Its automatic recovery is held back until events are sent to it again." in text(
        amina.get("webhook", amina.webhook.pk)
    )
