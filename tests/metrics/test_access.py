"""Access to the metrics."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, RequestFactory
from django.urls import reverse

from webhooks_app.metrics import metrics

from .conftest import TOKEN

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("setting", "header", "status"),
    [
        pytest.param(TOKEN, f"Bearer {TOKEN}", 200, id="token"),
        pytest.param(TOKEN, f"bearer  {TOKEN}", 200, id="scheme in small letters"),
        pytest.param(TOKEN, f"Bearer {TOKEN}x", 401, id="longer token"),
        pytest.param(TOKEN, "Bearer ", 401, id="empty token"),
        pytest.param(TOKEN, "Bearer tökén", 401, id="token beyond ASCII"),
        pytest.param(TOKEN, f"Basic {TOKEN}", 401, id="another scheme"),
        pytest.param(TOKEN, "", 401, id="no header"),
        pytest.param("", "Bearer ", 401, id="nothing shown where no token is set"),
        pytest.param("", "", 401, id="no token is set"),
    ],
)
def test_without_a_session_a_token_is_required(
    client: Client, settings: Any, setting: str, header: str, status: int
) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = setting

    response = client.get("/metrics", headers={"Authorization": header} if header else {})

    assert response.status_code == status
    assert response.headers.get("WWW-Authenticate") == (None if status == 200 else "Bearer")
    assert (b"webhooks_workers" in response.content) == (status == 200)


def test_the_token_suffices_if_all_pages_require_a_login(client: Client, settings: Any) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]

    response = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("is_staff", "permission", "status"),
    [
        pytest.param(True, "manage_all_webhooks", 200, id="manages all"),
        pytest.param(True, "view_webhook", 401, id="other staff"),
        pytest.param(False, "manage_all_webhooks", 401, id="no staff"),
    ],
)
def test_a_session_requires_the_permission_for_all_webhooks(
    client: Client, settings: Any, is_staff: bool, permission: str, status: int
) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN
    user = get_user_model().objects.create_user("amina", is_staff=is_staff)
    user.user_permissions.add(Permission.objects.get(codename=permission))
    client.force_login(user)

    assert client.get(reverse("webhooks_metrics")).status_code == status


def test_the_authentication_middleware_is_optional(settings: Any) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN
    request = RequestFactory().get("/metrics")

    assert metrics(request).status_code == 401


def test_the_page_is_not_cached_and_read_only(client: Client, settings: Any) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN
    headers = {"Authorization": f"Bearer {TOKEN}"}

    assert "no-store" in client.get("/metrics", headers=headers).headers["Cache-Control"]
    assert client.post("/metrics", headers=headers).status_code == 405


def test_the_openmetrics_format_is_available_on_request(client: Client, settings: Any) -> None:
    settings.WEBHOOKS_METRICS_TOKEN = TOKEN
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/openmetrics-text;version=1.0.0"}

    response = client.get("/metrics", headers=headers)

    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert response.content.endswith(b"# EOF\n")


def test_the_error_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("prometheus_client", "webhooks_app.metrics"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(ImproperlyConfigured, match=r"pip install 'django-webhooks-app\[metrics\]'"):
        importlib.import_module("webhooks_app.metrics.urls")
