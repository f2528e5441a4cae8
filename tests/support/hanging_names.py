"""Transports and a resolver for which the names of some hosts hang, as with a name server that does not answer."""

from __future__ import annotations

import dataclasses
import threading
import time

from webhooks_app.transport import TransportOptions
from webhooks_app.transport.native import NativeTransport
from webhooks_app.transport.requests import RequestsTransport

HANGING_SECONDS = 10.0
"""How long glibc asks a name server that does not answer."""


class HangingNative(NativeTransport):
    def __init__(self, options: TransportOptions) -> None:
        super().__init__(_resolving(options))


class HangingRequests(RequestsTransport):
    def __init__(self, options: TransportOptions) -> None:
        super().__init__(_resolving(options))


TRANSPORTS = {kind.name: f"{kind.__module__}.{kind.__qualname__}" for kind in (HangingNative, HangingRequests)}


def _resolving(options: TransportOptions) -> TransportOptions:
    return dataclasses.replace(options, resolve=_resolve)


def _resolve(host: str, _port: int) -> list[str]:
    if host.startswith("hang"):
        time.sleep(HANGING_SECONDS)
        raise OSError("no name server answers")
    return ["127.0.0.1"]


class HangingNames:
    """A resolver for which names beginning with "hang" hang until ``released`` is set."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, host: str, _port: int) -> list[str]:
        if host.startswith("hang"):
            self.released.wait(60)
        return ["127.0.0.1"]
