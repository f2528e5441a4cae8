"""The upper bound of throughput: a bare libcurl loop in one thread, which signs and posts without a database."""

from __future__ import annotations

import time

import pycurl

from webhooks_app.signatures import signed_headers

IN_FLIGHT = 64
BODY_BYTES = 1000
SECRET = "a secret for benchmarks"


def deliveries_per_second(url: str, count: int, *, ca_bundle: str = "", fresh: bool = False) -> float:
    """Return the requests per second of the loop, with signed bodies of 1 KB. ``fresh``: on a new connection each."""
    multi = pycurl.CurlMulti()
    body = b"x" * BODY_BYTES
    idle = [_handle(url, body, ca_bundle, fresh) for _ in range(IN_FLIGHT)]
    started_at, left, done = time.perf_counter(), count, 0
    while done < count:
        while idle and left:
            handle = idle.pop()
            headers = signed_headers(SECRET, int(time.time()), "ppt.generation.failed", body)
            handle.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in headers])
            multi.add_handle(handle)
            left -= 1
        while multi.perform()[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass
        _, succeeded, failed = multi.info_read()
        if failed:
            raise RuntimeError(f"The bare loop failed: {failed[0][2]}")
        for handle in succeeded:
            multi.remove_handle(handle)
            idle.append(handle)
        done += len(succeeded)
        if not succeeded:
            multi.select(0.1)
    return count / (time.perf_counter() - started_at)


def _handle(url: str, body: bytes, ca_bundle: str, fresh: bool) -> pycurl.Curl:
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, url)
    handle.setopt(pycurl.POSTFIELDS, body)
    handle.setopt(pycurl.WRITEFUNCTION, len)
    handle.setopt(pycurl.FRESH_CONNECT, fresh)
    handle.setopt(pycurl.FORBID_REUSE, fresh)
    if ca_bundle:
        handle.setopt(pycurl.CAINFO, ca_bundle)
    return handle
