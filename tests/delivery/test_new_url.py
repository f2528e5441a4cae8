"""A new URL, at real receivers: its handshake goes to the new one, and everything else to the old one meanwhile."""

from __future__ import annotations

import pytest

from webhooks_app.conf import transport_options
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.receiver.local import Answers, ChallengeAnswer, LocalReceiver
from webhooks_app.transport import make_transport

from ..support.retries import ONCE
from ..support.rows import emit_one, make_webhook

pytestmark = pytest.mark.django_db


def work():
    Engine(transport=make_transport("native", transport_options())).run_until_idle()


def test_receivers_get_each_event_once_through_a_typo_and_its_correction(alice, settings):
    settings.WEBHOOKS_RETRY_POLICIES = [ONCE]
    with LocalReceiver() as old, LocalReceiver(answers=Answers(challenge=ChallengeAnswer.WRONG)) as new:
        webhook = make_webhook(alice, url=old.url, order="webhook")
        new.secrets = old.secrets = (webhook.secret,)
        before = [emit_one(alice).pk for _ in range(20)]
        update_webhook(webhook, url=f"{new.url}typo", actor=PROJECT)
        work()
        assert [event.event_id for event in old.events()] == before
        assert {(request.path, request.is_verification) for request in new.received} == {("/typo", True)}
        assert Webhook.objects.get().status_reason.endswith("another challenge than the one that was sent.")

        new.answers = Answers()
        update_webhook(webhook, url=f"{new.url}hook", actor=PROJECT)
        work()
        after = [emit_one(alice).pk for _ in range(5)]
        work()

    assert [event.event_id for event in new.events()] == after
    assert len(old.events()) == 20
    assert [request.problem for request in (*old.received, *new.received) if request.problem] == []
