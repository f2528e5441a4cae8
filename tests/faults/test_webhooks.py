"""Webhooks that change while their deliveries are pending or in flight."""

from __future__ import annotations

import time

import pytest

from webhooks_app.models import Delivery
from webhooks_app.operations import lifecycle, rotation
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.registration import update_webhook
from webhooks_app.signatures import sign

from ..support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.places("postgresql-redis")]

NEW_SECRET = "the secret after the rotation"


@pytest.mark.parametrize(
    ("temper", "attempts"),
    [pytest.param("slowlyfails-1", 0, id="during an attempt"), pytest.param("never", 2, id="between attempts")],
)
def test_webhooks_change(lab, report, temper, attempts):
    deleted, disabled, rotated, moved = (lab.webhook(temper, retry_notices=False) for _ in range(4))
    new_url = lab.receiver_url("never")
    host = lab.start_host()
    lab.start_worker()
    lab.emit(host, 1)
    lab.wait_for_requests(4)
    wait_until(lambda: attempts == 0 or waiting_after(attempts) == 4, lab.explain)

    lifecycle.delete(deleted, actor=PROJECT)
    lifecycle.disable(disabled, actor=PROJECT)
    rotation.rotate_secret(rotated, secret=NEW_SECRET, actor=PROJECT)
    update_webhook(moved, url=new_url, actor=PROJECT)
    changed_at = time.time()

    report(lab.settle())
    later = [request for request in lab.log.requests() if request["at"] > changed_at]
    rotated_later = [request for request in later if rotated.url.endswith(request["path"])]
    moved_later = [request for request in later if request["path"] == path_of(new_url)]
    assert {request["event_type"] for request in moved_later} == {"webhook.verification"}
    assert {request["path"] for request in later} == {path_of(rotated.url), path_of(moved.url), path_of(new_url)}
    assert len(lab.requests(rotated)) == len(lab.requests(moved)) == 4
    assert len(rotated_later) == 4 - max(1, attempts)
    assert all(is_signed_with(NEW_SECRET, request) for request in rotated_later)
    assert lab.results() == {"cancelled": 2, "given_up": 2}


def waiting_after(attempts):
    return Delivery.objects.filter(kind="event", attempt_count=attempts, queue_entry__claimed_at=None).count()


def path_of(url):
    return "/" + url.split("/", 3)[3]


def is_signed_with(secret, request):
    return sign(secret, int(request["timestamp"]), request["body"].encode()) == request["signature"]
