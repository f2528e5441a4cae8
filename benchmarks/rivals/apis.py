"""HTTP APIs that accept events: this app's own, and those of servers that the reader has running."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import requests

from ..rows import DATA, EVENT_TYPE, emit_one, make_webhooks

SECONDS = 30


class Emitting:
    """This app in the process that emits."""

    connections: ClassVar = 1

    def add_accounts(self, urls: Sequence[Sequence[str]]) -> list[Any]:
        """Create an account for each list of URLs, with an endpoint for each URL."""
        return make_webhooks([url for group in urls for url in group], subscribers=len(urls[0]))

    def send_event(self, account: Any) -> None:
        """Emit or post an event of about 1 KB. Raise RuntimeError for an error."""
        emit_one(account)


class BaseApi(Emitting):
    """The client of an API. Used by several threads, each with a connection of its own."""

    connections = 16
    token_variable: ClassVar[str] = ""
    """The environment variable with the key."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._token = token if token is not None else os.environ.get(self.token_variable, "")
        self._local = threading.local()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.headers["Authorization"] = f"Bearer {self._token}"
        response = self._local.session.request(method, f"{self._url}{path}", json=body, timeout=SECONDS)
        if not response.ok:
            raise RuntimeError(f"{method} {path}: {response.status_code}, {response.text[:300]}")
        return json.loads(response.text or "null")


class OwnApi(BaseApi):
    """This app's ``POST /v1/events``, with a service key. The webhooks are added without the API."""

    def add_accounts(self, urls: Sequence[Sequence[str]]) -> list[str]:
        return [str(owner.pk) for owner in super().add_accounts(urls)]

    def send_event(self, account: Any) -> None:
        self.request("POST", "/v1/events", {"type": EVENT_TYPE, "owner": account, "data": DATA})


class SvixApi(BaseApi):
    """Svix, whose server is started with ``SVIX_WHITELIST_SUBNETS=["127.0.0.0/8"]``."""

    token_variable = "SVIX_TOKEN"

    def add_accounts(self, urls: Sequence[Sequence[str]]) -> list[str]:
        accounts = []
        for group in urls:
            account = self.request("POST", "/api/v1/app/", {"name": "benchmark"})["id"]
            for url in group:
                self.request("POST", f"/api/v1/app/{account}/endpoint/", {"url": url})
            accounts.append(account)
        return accounts

    def send_event(self, account: Any) -> None:
        self.request("POST", f"/api/v1/app/{account}/msg/", {"eventType": EVENT_TYPE, "payload": DATA})


class OutpostApi(BaseApi):
    """Outpost, whose topics include the type of the events, or are not limited."""

    token_variable = "OUTPOST_API_KEY"

    def add_accounts(self, urls: Sequence[Sequence[str]]) -> list[str]:
        accounts = [f"benchmark-{os.getpid()}-{number}" for number in range(len(urls))]
        for account, group in zip(accounts, urls, strict=True):
            self.request("PUT", f"/api/v1/tenants/{account}")
            for url in group:
                destination = {"type": "webhook", "topics": ["*"], "config": {"url": url}}
                self.request("POST", f"/api/v1/tenants/{account}/destinations", destination)
        return accounts

    def send_event(self, account: Any) -> None:
        self.request("POST", "/api/v1/publish", {"tenant_id": account, "topic": EVENT_TYPE, "data": DATA})
