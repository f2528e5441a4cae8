"""Helpers for sending requests in transport tests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Any

from webhooks_app.transport import BaseTransport, Exchange, Request, TransportOptions, make_transport

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
HEADERS = (
    ("Content-Type", "application/json"),
    ("User-Agent", "webhooks/1"),
    ("X-Webhook-Event", "ppt.generation.completed"),
)


def transport(name: str, **options: Any) -> BaseTransport:
    """Return a transport that may connect to loopback by plain http."""
    return make_transport(name, TransportOptions(**{"allow_http": True, "allowed_networks": LOOPBACK, **options}))


def post(url: str, *, body: bytes = b'{"id": "evt_1"}', timeout_seconds: float = 20.0, **options: Any) -> Request:
    return Request(url=url, headers=HEADERS, body=body, timeout_seconds=timeout_seconds, **options)


def send_all(sender: BaseTransport, requests: Iterable[Request]) -> list[Exchange]:
    """Start all requests, and return their exchanges in the order of the requests."""
    started = list(requests)
    for request in started:
        sender.start(request)
    finished: list[Exchange] = []
    deadline = time.monotonic() + 60
    while sender.in_flight and time.monotonic() < deadline:
        finished.extend(sender.wait(1.0))
    by_request = {id(exchange.request): exchange for exchange in finished}
    return [by_request[id(request)] for request in started]


def send(sender: BaseTransport, request: Request) -> Exchange:
    return send_all(sender, [request])[0]


def answers(**names: Sequence[str]) -> Any:
    """Return a resolver for these names only, with underscores in place of dots."""
    known = {name.replace("_", "."): list(addresses) for name, addresses in names.items()}

    def resolve(host: str, _port: int) -> list[str]:
        if host not in known:
            raise OSError("unknown name")
        return known[host]

    return resolve
