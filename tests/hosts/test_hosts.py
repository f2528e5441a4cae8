"""The wheel in other projects: registration, delivery, console and API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from webhooks_app.receiver.local import Answers, LocalReceiver

from ..support.waiting import wait_until
from .environment import Environment
from .hosts import FOLDER, HOSTS, Host
from .running import Customer, Integrator, Project, Staff, database_of

SECRET = "a secret that we share"
CUSTOMERS = "/webhooks/"


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "host", [pytest.param(host, id=host.name, marks=pytest.mark.only_on(host.database)) for host in HOSTS]
)
def test_the_wheel_works_in_the_host(
    host: Host, environment: Environment, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    broker = request.getfixturevalue("redis_url") if host.broker else ""
    with database_of(host) as url, LocalReceiver(secrets=[SECRET], answers=Answers(statuses=(500, 200))) as receiver:
        project = Project(host, environment, tmp_path, database_url=url, broker_url=broker)
        prepared = project.prepare()
        assert Path(prepared["package"]).is_relative_to(environment.directory)
        assert prepared["warnings"] == {}

        with project.running():
            integrator = Integrator(project, prepared["key"])
            webhook = integrator.register(receiver.url, SECRET)
            wait_until(lambda: integrator.status(webhook) == "active", project.log)

            assert integrator.pay("declined", decline=True).status_code == 500
            assert integrator.pay("paid").status_code == 200, project.log()
            arrived = receiver.wait_until(lambda seen: any(each.status == 200 and each.copy == 2 for each in seen), 20)
            assert arrived, project.log()

            assert [each.message["data"]["order"] for each in receiver.events("order.paid")] == ["paid", "paid"]
            wait_until(lambda: _states(integrator) == ["succeeded"], project.log)
            assert len(integrator.get("/v1/events?type=order.paid")["results"]) == 1

            if host.console:
                staff = Staff(project, prepared["staff"])
                pages, customers = staff.statuses(), staff.statuses(CUSTOMERS, most=12)
                assert {path: status for path, status in {**pages, **customers}.items() if status != 200} == {}, (
                    project.log()
                )
                assert len(pages) > 15
                assert len(customers) > (5 if host.staff_has_account else 0)
                _manages_a_webhook(Customer(project, prepared["link"]), receiver)


def _manages_a_webhook(customer: Customer, receiver: LocalReceiver) -> None:
    """Create a webhook, stop and test it, send something again, and delete it, by the customers' pages alone."""
    created = customer.sends("webhooks/new/", url=receiver.url, event_types="order.paid", secret=SECRET)
    assert SECRET in created.text
    page = created.url.partition("secret/")[0]
    wait_until(lambda: "Verified" in customer.reads(page), customer.project.log)

    assert "Paused the webhook." in customer.sends(f"{page}pause/").text
    assert "Resumed the webhook." in customer.sends(f"{page}resume/").text
    tested = customer.sends(f"{page}test/", event_type="order.paid", event_data='{"order": "tried", "amount": 1}')
    wait_until(lambda: "status 200, which confirms receipt" in customer.reads(tested.url), customer.project.log)
    delivery = re.findall(r"delivery=(dlv_\w+)", tested.url)[0]
    assert "Redelivered the event." in customer.sends(f"deliveries/{delivery}/").text
    wait_until(lambda: len([each for each in receiver.events("order.paid") if "tried" in str(each.message)]) > 2)
    assert "Deleted the webhook." in customer.sends(f"{page}delete/").text
    assert customer.session.get(page, timeout=20).status_code == 404


def _states(integrator: Integrator) -> list[str]:
    return [each["state"] for each in integrator.get("/v1/deliveries?event_type=order.paid")["results"]]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "host",
    [
        pytest.param(host, id=host.name, marks=pytest.mark.only_on(host.database))
        for host in HOSTS
        if host.name.startswith("read_replica")
    ],
)
def test_everything_works_beside_a_replica_that_lags(host: Host, environment: Environment, tmp_path: Path) -> None:
    with database_of(host) as url:
        project = Project(host, environment, tmp_path, database_url=url, broker_url="")
        project.prepare()

        done = project.output_of(FOLDER / "read_replica" / "everything.py")

    assert done["problems"] == {}
    assert all(done["calls"].values())


@pytest.mark.timeout(180)
def test_without_celery_an_event_arrives_soon(environment: Environment, tmp_path: Path) -> None:
    host = next(host for host in HOSTS if host.name == "without_celery_sqlite")
    project = Project(host, environment, tmp_path)
    prepared = project.prepare()
    with LocalReceiver(secrets=[SECRET]) as receiver, project.running():
        integrator = Integrator(project, prepared["key"])
        webhook = integrator.register(receiver.url, SECRET)
        wait_until(lambda: integrator.status(webhook) == "active", project.log)

        answers = [integrator.pay(f"order {number}") for number in range(5)]

        assert [answer.status_code for answer in answers] == [200] * 5, project.log()
        # Generous, because other tests run at the same time.
        assert max(answer.elapsed.total_seconds() for answer in answers) < 3, project.log()
        assert receiver.wait_until(lambda seen: sum(each.type == "order.paid" for each in seen) == 5, 60), project.log()
