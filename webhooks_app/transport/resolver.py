"""Resolving names beside the caller: getaddrinfo blocks, and a hostile name server makes it block for long."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeAlias

from .threads import DaemonThreads

logger = logging.getLogger("webhooks_app.transport")

LOOKUP_SECONDS = 5.0
MAX_THREADS = 64
MAX_SLOW_THREADS = 8
MAX_SLOW_NAMES = 10_000

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""Takes a host name and a port, and returns addresses in the order of preference; raises OSError if there are none."""


def resolve_by_system(host: str, port: int) -> list[str]:
    """Return the addresses that the operating system's resolver finds, in the order it prefers them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class NameResolver:
    """Resolves names in a bounded number of threads; lookups of one name at the same time share one answer.

    A name that took too long has fewer threads from then on, until it does not, so that name servers that hang
    leave the others theirs.
    """

    def __init__(self, resolve: Resolve = resolve_by_system) -> None:
        self._resolve = resolve
        self._threads = DaemonThreads("webhooks-resolver", MAX_THREADS)
        self._slow_threads = DaemonThreads("webhooks-slow-resolver", MAX_SLOW_THREADS)
        self._slow_names: dict[str, None] = {}
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[tuple[str, ...]]] = {}

    def lookup(self, host: str, port: int) -> Future[tuple[str, ...]]:
        """Return what will be the addresses of the host. The caller bounds its waiting by ``LOOKUP_SECONDS``."""
        with self._lock:
            answer = self._under_way.get(host)
            if answer is not None:
                return answer
            answer = self._under_way[host] = Future()
            threads = self._slow_threads if host in self._slow_names else self._threads
        try:
            threads.submit(partial(self._run, host, port, answer, time.monotonic()))
        except RuntimeError as error:
            logger.exception("The name %s cannot be looked up", host)
            with self._lock:
                del self._under_way[host]
            answer.set_exception(error)
        return answer

    def close(self) -> None:
        """Begin no more lookups. Those that hang end with the operating system's own limit."""
        self._threads.close()
        self._slow_threads.close()

    def _run(self, host: str, port: int, answer: Future[tuple[str, ...]], asked_at: float) -> None:
        addresses: tuple[str, ...] = ()
        problem: Exception | None = None
        began_at = time.monotonic()
        is_awaited = began_at - asked_at < LOOKUP_SECONDS
        try:
            if is_awaited:
                addresses = tuple(self._resolve(host, port))
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait, and the thread must live on
            problem = error
        with self._lock:
            del self._under_way[host]
            if is_awaited:
                self._note_pace(host, time.monotonic() - began_at)
        if problem is None:
            answer.set_result(addresses)
        else:
            answer.set_exception(problem)

    def _note_pace(self, host: str, seconds: float) -> None:
        self._slow_names.pop(host, None)
        if seconds >= LOOKUP_SECONDS:
            if len(self._slow_names) >= MAX_SLOW_NAMES:
                del self._slow_names[next(iter(self._slow_names))]
            self._slow_names[host] = None
