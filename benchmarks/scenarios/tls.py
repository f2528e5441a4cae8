"""The costs of TLS for the transports: on kept connections, and with a new connection and host for each request."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from ipaddress import ip_network
from typing import ClassVar

from webhooks_app.signatures import signed_headers
from webhooks_app.transport import Request, TransportOptions, make_transport

from .. import bare, tls_receiver
from ..progress import Progress
from ..rivals import bare_requests
from ..scenario import BaseScenario, Figures, Variant, at_least
from ..tls_receiver import TlsReceiver

BODY = b"x" * bare.BODY_BYTES
IN_FLIGHT = bare.IN_FLIGHT
FEWER_KEPT, FEWER_NEW = 4, 10
"""Divisors of the counts for bare ``requests``, which reads the trust store for each new connection."""


class Tls(BaseScenario):
    name = "tls"
    summary = f"HTTPS without a database or workers, {IN_FLIGHT} requests at once, one authority besides the system's"
    variants = (
        Variant(
            label="native",
            database="sqlite",
            broker="folder",
            targets={"kept_per_s": at_least(8000), "new_per_s": at_least(1500)},
        ),
        Variant(
            label="requests",
            database="sqlite",
            broker="folder",
            transport="requests",
            targets={"new_per_s": at_least(450)},
        ),
        Variant(label="bare loop", contestant="bare-loop"),
        Variant(label="bare requests", contestant="bare-requests"),
    )
    options: ClassVar = {
        "kept": (10_000, "requests on kept connections"),
        "new": (2000, "requests on new connections"),
    }
    quick: ClassVar = {"kept": 1000, "new": 200}

    def measure(self, arguments: argparse.Namespace, variant: Variant, progress: Progress) -> Figures:
        kept, new = arguments.kept, arguments.new
        if variant.contestant == "bare-requests":
            kept, new = kept // FEWER_KEPT, new // FEWER_NEW
        with tls_receiver.running() as receiver:
            progress.step("connections kept", kept)
            kept_per_s = _per_second(receiver, variant, kept, fresh=False, progress=progress)
            progress.step("new connections", new)
            new_per_s = _per_second(receiver, variant, new, fresh=True, progress=progress)
            time.sleep(0.2)  # the log is written every 50 ms
            if receiver.receiver.count() != kept + new:
                raise RuntimeError(f"{receiver.receiver.count()} of {kept + new} requests arrived.")
        return {"kept_per_s": kept_per_s, "new_per_s": new_per_s}

    def compare(self, results: Mapping[str, Figures]) -> None:
        if "bare loop" in results:
            for figures in results.values():
                for name in ("kept", "new"):
                    figures[f"ratio_to_bare_{name}"] = figures[f"{name}_per_s"] / results["bare loop"][f"{name}_per_s"]


def _per_second(receiver: TlsReceiver, variant: Variant, count: int, *, fresh: bool, progress: Progress) -> float:
    if variant.contestant == "ours":
        return _ours(receiver, variant.transport, count, fresh=fresh, progress=progress)
    url, bundle = f"{receiver.receiver.url}/", str(receiver.bundle)
    if variant.contestant == "bare-requests":
        return bare_requests.deliveries_per_second(url, count, ca_bundle=bundle, fresh=fresh)
    return bare.deliveries_per_second(url, count, ca_bundle=bundle, fresh=fresh)


def _ours(receiver: TlsReceiver, name: str, count: int, *, fresh: bool, progress: Progress) -> float:
    options = TransportOptions(
        allowed_networks=(ip_network("127.0.0.0/8"),),
        ca_bundle=str(receiver.authority),
        resolve=lambda host, port: ("127.0.0.1",),
    )
    transport = make_transport(name, options)
    started_at, started, done = time.perf_counter(), 0, 0
    try:
        while done < count:
            while started < count and transport.in_flight < IN_FLIGHT:
                transport.start(_request(receiver.url(f"host-{started}" if fresh else "host")))
                started += 1
            for exchange in transport.wait(1.0):
                if exchange.error is not None:
                    raise RuntimeError(exchange.error.message)
                done += 1
            progress.done(done)
    finally:
        transport.close()
    return count / (time.perf_counter() - started_at)


def _request(url: str) -> Request:
    headers = signed_headers(bare.SECRET, int(time.time()), "ppt.generation.failed", BODY)
    return Request(url=url, headers=headers, body=BODY, timeout_seconds=30)
