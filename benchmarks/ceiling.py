"""The most that libcurl does here: a bare loop that signs and posts, with no database."""

from __future__ import annotations

import time

from webhooks_app.signing import signed_headers

IN_FLIGHT = 64


def deliveries_per_second(url: str, count: int) -> float:
    """Return how many signed 1 KB bodies a second one thread posts to ``url``."""
    import pycurl  # noqa: PLC0415

    multi = pycurl.CurlMulti()
    idle = [pycurl.Curl() for _ in range(IN_FLIGHT)]
    body = b"x" * 1000
    for handle in idle:
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.POSTFIELDS, body)
        handle.setopt(pycurl.WRITEFUNCTION, len)
    started_at, left, done = time.perf_counter(), count, 0
    while done < count:
        while idle and left:
            handle = idle.pop()
            headers = signed_headers("a secret for benchmarks", int(time.time()), "ppt.generation.failed", body)
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
