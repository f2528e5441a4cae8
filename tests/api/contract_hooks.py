"""Additions to the OpenAPI document for schemathesis; named in SCHEMATHESIS_HOOKS."""

from __future__ import annotations

from itertools import product
from typing import Any

import schemathesis
from hypothesis import strategies

# A schema cannot express which hosts are public, nor that the labels of a host have at most 63 characters.
HOSTS = ("a", "0", "a-b", "a.b-0", "xn--bcher-kva", "z" * 63)
PORTS = ("", ":443", ":1024", ":65535")
PATHS = ("", "/", "/hook", "//", "?", "/?a=b&c", "/~a._-", "/a!$&'()*+,;=:@", "/%7B%20/b?c=/d?e")
LONGEST = 2048
URLS = [
    *(f"https://{host}.example.com{port}{path}" for host, port, path in product(HOSTS, PORTS, PATHS)),
    *("https://a.example.com/".ljust(length, "x") for length in (LONGEST - 1, LONGEST)),
]
# A list, because schemathesis searches it for a URL of each length at a limit. It would search an endless set for long,
# also for a URL of one character.
schemathesis.openapi.format("uri", strategies.sampled_from(URLS))


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leave out bodies whose validity a schema cannot express.

    The fields of a filter depend on the event types, and the form of a secret on its scheme.
    """
    body = case.body if isinstance(case.body, dict) else {}
    return not (body.get("filter") or (body.get("secret") and body.get("scheme")))
