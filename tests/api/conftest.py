"""Two accounts with API keys, and a client for one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from webhooks_app.models import ApiKey

PROBLEM = "application/problem+json"


class ApiClient(Client):
    """Django's test client with an API key, sending JSON."""

    def __init__(self, key: str = "", **defaults: Any) -> None:
        super().__init__(raise_request_exception=False, **defaults)
        self.key = key

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request with the key. Bytes are sent unchanged, any other ``body`` as JSON."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.key}", **headers}
        content_type = headers.pop("content-type")
        headers = {name: value for name, value in headers.items() if value}
        return self.generic(method, path, raw, content_type, headers=headers)


@pytest.fixture(autouse=True)
def _unthrottled():
    cache.clear()


@pytest.fixture
def api(alice):
    """A client with alice's key."""
    return client_of(alice)


@pytest.fixture
def bobs_api(bob):
    return client_of(bob)


@pytest.fixture
def service(db):
    """A client with a service key."""
    return client_of(None, scopes=["events:emit"])


def client_of(owner: Any, **fields: Any) -> ApiClient:
    _, text = ApiKey.objects.make(owner=owner, **fields)
    return ApiClient(text)
