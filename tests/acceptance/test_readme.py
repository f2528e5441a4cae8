"""The README, followed literally in a new project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from webhooks_app.conf import Settings
from webhooks_app.receiver import verify

from .newcomer import FENCE, Newcomer
from .test_security_page import anchors

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "docs" / "settings.md").read_text()


@pytest.fixture
def newcomer(tmp_path: Path, redis_url: str) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path, redis_url)
    yield newcomer
    newcomer.stop_all()


@pytest.mark.timeout(300)
def test_the_readme_leads_to_a_first_delivery_in_a_new_project(newcomer):
    for match in FENCE.finditer(README):
        if "emit_event" in match["code"]:
            newcomer.wait_for("webhook.verification")
        newcomer.follow(match)
    newcomer.wait_for("inv_1")
    newcomer.run("python manage.py check --tag webhooks")
    # W014 is about an extra that the environment of the tests has.
    assert not re.search(r"webhooks_app\.(?!W014)[WE]\d|database is locked|Traceback", newcomer.seen()), newcomer.seen()

    newcomer.stop_all()
    newcomer.start("python manage.py listen_webhooks --port 8001 --secret 'a secret that we share'")
    newcomer.start("celery -A mysite worker --loglevel INFO --concurrency 1")
    newcomer.run(
        """python manage.py emit_event invoice.paid --owner alice --data '{"invoice_id": "inv_2", "amount": 1}'"""
    )

    newcomer.wait_for("inv_2")
    newcomer.run(
        'python -c \'import django, os; os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"; '
        "django.setup(); import billing.payments'"
    )


def test_every_setting_is_in_the_table_with_its_default():
    rows = dict(re.findall(r"^\| `WEBHOOKS_(\w+)` \| `(.*?)` \|", SETTINGS, re.MULTILINE))

    defaults = {name: getattr(Settings, name) for name in Settings.__annotations__ if name.isupper()}
    assert rows.keys() == defaults.keys()
    assert {name: eval(text) for name, text in rows.items()} == defaults


def test_the_readme_has_at_most_235_lines():
    assert len(README.splitlines()) <= 235


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)]+)\)", README))))
def test_a_link_is_relative_and_leads_to_a_file(link: str) -> None:
    """The build makes links absolute, once there is a published repository."""
    name, _, anchor = link.partition("#")

    assert (ROOT / name).is_file()
    assert not anchor or anchor in anchors(ROOT / name)


def test_the_request_at_the_top_is_genuine() -> None:
    (request,) = re.findall(r"```http\n(.*?)\n```", README, re.DOTALL)
    head, body = request.split("\n\n")
    headers = dict(line.split(": ") for line in head.splitlines()[1:])

    received = verify(
        body.encode(),
        headers,
        "a secret that we share",
        now=datetime.fromtimestamp(int(headers["X-Webhook-Timestamp"]), UTC),
    )

    assert received.type == headers["X-Webhook-Event"] == "invoice.paid"
    assert f"```http\n{request}\n```" in (ROOT / "docs" / "index.md").read_text()
