"""Plain ``requests``, in one thread per request in flight."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import requests

from webhooks_app.signatures import signed_headers

from ..bare import BODY_BYTES, IN_FLIGHT, SECRET

BODY = b"x" * BODY_BYTES


def deliveries_per_second(url: str, count: int, *, ca_bundle: str, fresh: bool) -> float:
    """Return the requests per second, by ``requests.post`` if ``fresh`` and otherwise by a session per thread."""
    own = threading.local()

    def post(_: int) -> None:
        headers = dict(signed_headers(SECRET, int(time.time()), "ppt.generation.failed", BODY))
        if fresh:
            requests.post(url, data=BODY, headers=headers, verify=ca_bundle, timeout=30)
            return
        if not hasattr(own, "session"):
            own.session = requests.Session()
        own.session.post(url, data=BODY, headers=headers, verify=ca_bundle, timeout=30)

    started_at = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        list(threads.map(post, range(count)))
    return count / (time.perf_counter() - started_at)
