"""The guarantees hold for webhooks with all choices at once while workers are killed."""

from __future__ import annotations

import pytest

from webhooks_app.models import Delivery

from .choices import ALL_CHOICES, KEYS, problems_of

EVENTS = 20


@pytest.mark.timeout(300)
@pytest.mark.places("postgresql-redis")
def test_all_choices_at_once(lab, report):
    confirming, failing = (lab.webhook(temper, **ALL_CHOICES) for temper in ("nocontent", "fails-4"))
    lab.webhook("ok")
    host = lab.start_host()
    lab.start_beat()
    lab.start_workers(2)

    host.begin(EVENTS, ending="commit", pause_seconds=0.2, keys=KEYS)
    for number in (10, 30):
        lab.wait_for_requests(number)
        lab.kill_worker()
        lab.start_worker()
    lab.take_report(host)

    report(lab.settle())
    assert len(lab.evidence().groups) == 2 * KEYS
    states = dict(Delivery.objects.filter(kind="event").values_list("webhook", "state").distinct())
    assert states[confirming.pk] == states[failing.pk] == "succeeded"
    assert Delivery.objects.filter(webhook=failing, kind="event").count() == EVENTS // 2


def request(**changes):
    headers = {"x-tenant": "acme", "authorization": "Basic cmVjZWl2ZXI6cGFzcyB3b3Jk"}
    return {"number": 1, "path": "/ok", "body": "{}", "headers": {**headers, **changes}}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({}, "/ok, native:", id="not signed"),
        pytest.param({"x-tenant": "other"}, "x-tenant: other", id="another header"),
        pytest.param({"authorization": ""}, "authorization:", id="no credentials"),
    ],
)
def test_a_request_that_does_not_honour_a_choice_is_found(changes, problem):
    assert any(problem in found for found in problems_of(request(**changes), ["whsec_x"]))
