"""The sentence about the state of the service: the gravest problem, and its thresholds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.maintenance.rollups.conftest import make_tally
from tests.support.reading import words
from webhooks_app.admin.overview import verdict
from webhooks_app.maintenance.rollups.reading import Counters
from webhooks_app.models import Webhook, WebhookHealth, WorkerProcess

from .conftest import Page, shows, text

WELL = {"workers": 1, "overdue": timedelta(0), "last_hour": Counters({"succeeded_at_once": 1000}), "failing": 0}
GOOD, WARNING, BAD = "good", "late", "bad"


def counted(failed: int, succeeded: int) -> Counters:
    return Counters({"succeeded_at_once": succeeded, "failed_timeout": failed})


@pytest.mark.parametrize(
    ("facts", "tone", "state", "cause"),
    [
        pytest.param({}, GOOD, "Healthy", "0% of the requests", id="well"),
        pytest.param({"last_hour": Counters()}, GOOD, "Healthy", "There were no requests", id="nothing"),
        pytest.param({"last_hour": counted(9, 991)}, GOOD, "Healthy", "0.9% of", id="few errors"),
        pytest.param({"last_hour": counted(9, 0)}, GOOD, "Healthy", "100% of", id="few requests"),
        pytest.param({"last_hour": counted(10, 990)}, WARNING, "Some errors", "1% of", id="some errors"),
        pytest.param({"last_hour": counted(1, 9)}, BAD, "Many errors", "10% of", id="many errors"),
        pytest.param({"overdue": timedelta(seconds=29)}, GOOD, "Healthy", "", id="punctual"),
        pytest.param({"overdue": timedelta(seconds=30)}, WARNING, "Delayed", "due for 30 s", id="late"),
        pytest.param({"overdue": timedelta(minutes=5)}, BAD, "Delayed", "due for 5 min", id="very late"),
        pytest.param({"failing": 1}, WARNING, "Receivers failing", "1 webhook is", id="one failing"),
        pytest.param({"failing": 10, "has_more": True}, WARNING, "Receivers failing", "10+ webhooks are", id="many"),
        pytest.param({"workers": 0}, BAD, "Not delivering", "No worker seen", id="no worker"),
        pytest.param({"workers": 0, "last_hour": counted(9, 1)}, BAD, "Not delivering", "", id="no worker first"),
        pytest.param(
            {"overdue": timedelta(seconds=40), "last_hour": counted(9, 1)},
            BAD,
            "Many errors",
            "",
            id="red first",
        ),
    ],
)
def test_the_gravest_problem_is_named(facts: dict[str, Any], tone: str, state: str, cause: str) -> None:
    found = verdict(**{**WELL, **facts})

    assert (found.tone, str(found.state)) == (tone, state)
    assert cause in found.cause


def test_rare_sweeps_allow_more_delay(settings: Any) -> None:
    settings.WEBHOOKS_SWEEP_SECONDS = 60

    assert verdict(**{**WELL, "overdue": timedelta(seconds=100)}).state == "Healthy"


def overview(page: Page) -> Any:
    return page.client.get(reverse("admin:app_list", args=["webhooks_app"]))


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
def test_the_overview_begins_with_the_sentence(
    superuser: Page, webhook: Webhook, new_webhook: Callable[..., Webhook]
) -> None:
    now = timezone.now()
    WorkerProcess.objects.create(id="host:1:1", host="host", pid=1, started_at=now, seen_at=now)
    make_tally(now, **{webhook.pk: {"succeeded_at_once": 100}})
    WebhookHealth.objects.create(webhook=webhook, failing_since=now)

    well = overview(superuser)
    WebhookHealth.objects.create(webhook=new_webhook(None), failing_since=now - timedelta(minutes=1))
    failing = overview(superuser)

    assert "Healthy. 0% of the requests" in words(text(well))
    assert shows(failing, "1 webhook is failing.")


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@pytest.mark.parametrize("is_disabled", [False, True])
def test_staff_and_customers_read_the_same_about_their_own_webhooks(
    staff: Callable[..., Page], new_webhook: Callable[..., Webhook], is_disabled: bool
) -> None:
    page = staff("amina", "view_webhook", "view_delivery")
    webhook = new_webhook(page.user)
    if is_disabled:
        Webhook.objects.filter(pk=webhook.pk).update(status=Webhook.Status.DISABLED)

    customers = page.client.get(reverse("webhooks_portal:overview", args=[page.user.pk])).context["verdict"]

    assert str(customers.state) == ("Disabled" if is_disabled else "Healthy")
    assert words(f"{customers.state}. {customers.cause}") in words(text(overview(page)))
