"""``create_portal_link``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.test import Client
from django.urls import include, path

from webhooks_app.models import AuditEntry, PortalLink, Webhook

from .conftest import Output

Run = Callable[..., Output]

pytestmark = pytest.mark.django_db

urlpatterns = [path("v1/", include("webhooks_app.api.urls"))]


def test_a_link_is_printed_and_opens_the_page_with_its_rights(run: Run, webhook: Webhook, owner: Any) -> None:
    options = (
        "--rights",
        "read,manage",
        "--page",
        f"webhooks/{webhook.pk}/settings/",
        "--site",
        "https://app.example.com/",
    )

    printed = run("create_portal_link", owner.username, *options)
    client, url = Client(), printed.stdout.strip().removeprefix("https://app.example.com")
    client.get(url)
    response = client.post(url, follow=True)

    assert printed.stdout.startswith("https://app.example.com/webhooks/link/lnk_")
    assert "with the rights read, manage" in printed.stderr
    assert response.request["PATH_INFO"].endswith(f"/webhooks/{webhook.pk}/settings/")
    assert "Pause" in response.content.decode()
    assert "Rotate" not in response.content.decode()


def test_a_link_is_audited_and_limited_to_a_user(run: Run, owner: Any, django_user_model: Any) -> None:
    user = django_user_model.objects.create_user("clara")

    printed = run("create_portal_link", owner.username, "--user", "clara", "--expires-minutes", "60")

    link, entry = PortalLink.objects.get(), AuditEntry.objects.filter(action="portal_link.created").get()
    assert (link.user, link.rights) == (user, ["read"])
    assert f"Open it before {link.expires_at:%Y-%m-%d %H:%M} UTC. It works once; the visit lasts" in printed.stderr
    assert (link.expires_at - link.created_at).total_seconds() == pytest.approx(3600, abs=1)
    assert (entry.subject, entry.via, entry.owner_id) == (link.pk, "command", owner.pk)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--rights", ""], "--rights is empty. Pass any of: read, manage, secrets", id="no right"),
        pytest.param(["--rights", "admin"], "'admin' is not a right", id="right"),
        pytest.param(["--page", "nowhere/"], "'nowhere/' is not the path of a page", id="page"),
        pytest.param(["--user", "nobody"], "No user has the username 'nobody'", id="user"),
        pytest.param(["--expires-minutes", "0"], "--expires-minutes is 0, but must be 1 to 10080", id="age"),
    ],
)
def test_wrong_options_are_refused(run: Run, owner: Any, options: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        run("create_portal_link", owner.username, *options)

    assert not PortalLink.objects.exists()


def test_the_right_to_read_is_always_included(run: Run, owner: Any) -> None:
    printed = run("create_portal_link", owner.username, "--rights", "manage")

    assert "with the rights read, manage." in printed.stderr
    assert PortalLink.objects.get().rights == ["read", "manage"]


@pytest.mark.urls(__name__)
def test_without_the_pages_the_command_says_what_to_add(run: Run, owner: Any) -> None:
    with pytest.raises(CommandError, match="Your URLs have no customers' pages"):
        run("create_portal_link", owner.username)
