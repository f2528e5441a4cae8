"""Private names of libraries: each use has its reason, and a test that fails if Django changes the name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.messages import get_messages, success
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware, get_token

from webhooks_app.models import Delivery
from webhooks_app.models.disclosure import MaskedIterable
from webhooks_app.portal import visits
from webhooks_app.portal.visits import LinkMessages, LinkStore, with_csrf

PACKAGE = Path(visits.__file__).parents[1]


def test_every_use_of_a_private_name_has_its_reason() -> None:
    lines = [line for path in PACKAGE.rglob("*.py") for line in path.read_text().splitlines() if "noqa: SLF001" in line]

    assert len(lines) < 20
    assert [line for line in lines if not re.search(r"noqa: SLF001 - \w+", line)] == []


def test_nothing_but_the_test_kit_reads_django_test() -> None:
    users = {path.parts[len(PACKAGE.parts)] for path in PACKAGE.rglob("*.py") if "django.test" in path.read_text()}

    assert users <= {"testing", "pytest_plugin.py"}


def test_messages_are_those_of_the_storage_in_the_request(rf: Any) -> None:
    """``portal.visits.begin`` sets ``request._messages``."""
    request: Any = rf.get("/")
    request.session = {}
    request._messages = LinkMessages(request, LinkStore(None))  # type: ignore[arg-type]
    success(request, "Saved.")

    assert get_messages(request) is request._messages


@pytest.mark.parametrize(("token", "status"), [("own", 200), ("other", 403)])
def test_csrf_tokens_are_compared_with_the_secret_of_a_visit(rf: Any, token: str, status: int) -> None:
    """``portal.visits`` overrides ``CsrfViewMiddleware._get_secret``."""
    assert callable(CsrfViewMiddleware._get_secret)  # type: ignore[attr-defined]
    secrets = {"own": "a" * 32, "other": "b" * 32}
    page: Any = rf.get("/")
    page.META["CSRF_COOKIE"] = secrets[token]
    request = rf.post("/", {"csrfmiddlewaretoken": get_token(page)})
    request._dont_enforce_csrf_checks = False  # type: ignore[attr-defined] # set by Django's test client

    def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    response: Any = with_csrf(request, secrets["own"], answer)

    assert response.status_code == status


@pytest.mark.django_db
def test_every_way_to_read_a_queryset_uses_its_iterable(monkeypatch: pytest.MonkeyPatch) -> None:
    """``models.disclosure`` sets ``QuerySet._iterable_class``."""
    read: list[int] = []
    monkeypatch.setattr(MaskedIterable, "__iter__", lambda self: iter(read.append(1) or ()))
    rows = Delivery.objects.for_owner()

    for read_them in (list, lambda rows: list(rows.iterator()), lambda rows: rows.first(), lambda rows: list(rows[:3])):
        read_them(rows.all())

    assert len(read) == 4
