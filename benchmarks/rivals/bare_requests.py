"""``requests`` as it is, in as many threads as there are requests in flight."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import requests

from webhooks_app.signatures import signed_headers

from ..bare import BODY_BYTES, IN_FLIGHT, SECRET

BODY = b"x" * BODY_BYTES


def deliveries_per_second(url: str, count: int, *, ca_bundle: str, fresh: bool) -> float:
    """Return how many signed bodies a second it posts: each by ``requests.post``, or by a session for each thread."""
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
