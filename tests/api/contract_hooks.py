"""Additions to the OpenAPI document for schemathesis; named in SCHEMATHESIS_HOOKS."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import strategies

# A schema cannot express which hosts are public, nor that the labels of a host have at most 63 characters.
schemathesis.openapi.format(
    "uri",
    strategies.builds(
        "https://{}.example.com{}/{}".format,
        strategies.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=63),
        strategies.sampled_from(["", ":443", ":1024", ":65535"]),
        strategies.text("azAZ09-._~!$&'()*+,;=:@/?", max_size=60),
    ),
)


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leave out bodies whose validity a schema cannot express.

    The fields of a filter depend on the event types, and the form of a secret on its scheme.
    """
    body = case.body if isinstance(case.body, dict) else {}
    return not (body.get("filter") or (body.get("secret") and body.get("scheme")))
