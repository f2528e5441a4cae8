"""Webhooks with endless requests do not affect a fast webhook of the same owner.

The transports and their slots do not depend on the database. SQLite has one test with requests of all kinds.
"""

from __future__ import annotations

import socket

import pytest

from webhooks_app.models import DeliveryAttempt, QueueEntry

from ..support.hanging_names import TRANSPORTS
from ..support.servers.stalling_proxy import running_proxy
from ..support.waiting import wait_until

pytestmark = pytest.mark.timeout(120)

SLOTS = 64
"""The number of threads of ``requests``."""

SETTINGS = {
    "WEBHOOKS_MAX_IN_FLIGHT": SLOTS,
    "WEBHOOKS_TIMEOUT_SECONDS": 60,
    "WEBHOOKS_LEASE_SECONDS": 120,
}
TEMPERS = ("hangs", "drips-200", "drips-500", "")
"""The last stalls the TLS handshake."""

SLOW_WEBHOOKS = 20
EACH = 20
"""Deliveries pending to each of them. With a quarter of the slots each, four of them would leave none."""


@pytest.fixture
def stalling_url():
    """The URL of a port that accepts connections, but never reads or sends a byte."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1000)
        yield f"https://127.0.0.1:{listening.getsockname()[1]}/hook"


def make_slow(lab, tempers, stalling_url, *, is_new=True):
    for number in range(SLOW_WEBHOOKS):
        temper = tempers[number % len(tempers)]
        webhook = lab.webhook(temper, "file.deleted", url="" if temper else stalling_url, is_new=is_new)
        lab.queue(webhook, EACH)


def assert_healthy_is_served(lab, healthy):
    """Queue events to a healthy webhook while the slow ones have open requests, and wait for their arrival."""
    slow = QueueEntry.objects.claimed().exclude(webhook=healthy)
    wait_until(lambda: slow.count() >= SLOW_WEBHOOKS // 4, lab.explain)
    for expected in (20, 40):
        lab.queue(healthy, 20)
        wait_until(lambda expected=expected: len(lab.requests(healthy)) == expected, lab.explain)

    assert slow.count() >= SLOW_WEBHOOKS // 4
    assert not DeliveryAttempt.objects.filter(result="timeout").exists()


@pytest.mark.places("postgresql-redis")
@pytest.mark.parametrize("transport", ["native", "requests"])
def test_new_webhooks_with_endless_requests_do_not_delay_others(make_lab, transport, stalling_url):
    """Those of each kind alone could fill all slots."""
    with make_lab(WEBHOOKS_TRANSPORT=transport, **SETTINGS) as lab:
        healthy = lab.webhook("ok")
        make_slow(lab, TEMPERS, stalling_url)

        lab.start_worker()

        assert_healthy_is_served(lab, healthy)


@pytest.mark.places("postgresql-redis")
@pytest.mark.parametrize("transport", ["native", "requests"])
def test_a_proxy_that_stalls_for_some_webhooks_delays_no_other(make_lab, transport, stalling_url):
    with (
        running_proxy(int(stalling_url.split(":")[2].partition("/")[0])) as proxy,
        make_lab(WEBHOOKS_TRANSPORT=transport, WEBHOOKS_EGRESS_PROXY=proxy, **SETTINGS) as lab,
    ):
        healthy = lab.webhook("ok")
        make_slow(lab, [""], stalling_url)

        lab.start_worker()

        assert_healthy_is_served(lab, healthy)


@pytest.mark.places("postgresql-redis")
@pytest.mark.parametrize("transport", ["native", "requests"])
def test_200_host_names_whose_dns_hangs_delay_no_other(make_lab, transport):
    with make_lab(WEBHOOKS_TRANSPORT=TRANSPORTS[transport], WEBHOOKS_MAX_WEBHOOKS_PER_OWNER=300, **SETTINGS) as lab:
        healthy = lab.webhook("", url=lab.receiver_url("ok").replace("127.0.0.1", "healthy.example.com"))
        for number in range(200):
            webhook = lab.webhook("", "file.deleted", url=f"http://hang{number}.d{number}.test/hook", is_new=True)
            lab.queue(webhook, 2)

        lab.start_worker()

        assert_healthy_is_served(lab, healthy)
        assert not DeliveryAttempt.objects.filter(delivery__webhook=healthy).exclude(result="succeeded").exists()


@pytest.mark.places("sqlite-embedded")
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "fast before"])
def test_slow_webhooks_of_all_kinds_do_not_delay_others(make_lab, is_new, stalling_url):
    with make_lab(WEBHOOKS_TRANSPORT="requests", **SETTINGS) as lab:
        healthy = lab.webhook("ok")
        make_slow(lab, TEMPERS, stalling_url, is_new=is_new)

        lab.start_workers(2)

        assert_healthy_is_served(lab, healthy)


@pytest.mark.places("postgresql-redis")
def test_receivers_that_recover_are_noticed_while_their_old_requests_hang(make_lab):
    with make_lab(**SETTINGS | {"WEBHOOKS_MAX_IN_FLIGHT": 160}) as lab:
        webhooks = [lab.webhook("recovers", is_new=True, max_in_flight=15) for _ in range(8)]
        for webhook in webhooks:
            lab.queue(webhook, 60)
        lab.start_worker()
        for webhook in webhooks:
            lab.wait_for_requests(2, webhook)

        lab.release_requests()

        for webhook in webhooks:
            answered = DeliveryAttempt.objects.filter(delivery__webhook=webhook, result="succeeded")
            wait_until(lambda answered=answered: answered.count() >= 20, lab.explain)
        assert not DeliveryAttempt.objects.filter(duration_ms__gte=55_000).exists()


@pytest.mark.places("postgresql-redis")
def test_the_next_worker_uses_the_stored_pace(make_lab):
    with make_lab(**SETTINGS) as lab:
        webhook = lab.webhook("slow-2", is_new=True)
        lab.queue(webhook, 1)
        first = lab.start_worker()
        wait_until(lambda: DeliveryAttempt.objects.filter(result="succeeded").exists(), lab.explain)

        first.request_stop()
        first.popen.wait(30)

        webhook.refresh_from_db()
        assert webhook.is_fast is False
