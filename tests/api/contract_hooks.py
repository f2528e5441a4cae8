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
def filter_body(context: Any, body: Any) -> bool:
    """Leave out filters with conditions: a schema cannot express which fields the chosen event types have."""
    chosen = body.get("filter") if isinstance(body, dict) else None
    return not (isinstance(chosen, dict) and chosen)
