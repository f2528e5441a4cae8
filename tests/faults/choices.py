"""A webhook with all choices at once, and checks of the requests that its receiver got.

``ALL_CHOICES`` are the arguments of a registration. A new choice is an entry here, and a line in ``problems_of`` if the
receiver can see it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.support.retries import EXTENDED
from webhooks_app.exceptions import WebhookVerificationError
from webhooks_app.models import Webhook
from webhooks_app.receiver import verify
from webhooks_app.signatures import SIGNATURES, BaseSignature

TENANT, USER, PASSWORD = "acme", "receiver", "pass word"
SCHEMES: Sequence[BaseSignature] = tuple(SIGNATURES.named(tuple(SIGNATURES.built_in)).values())

ALL_CHOICES: Mapping[str, Any] = {
    "signatures": list(SIGNATURES.built_in),
    "headers": {"X-Tenant": TENANT},
    "basic_auth": (USER, PASSWORD),
    "retry_policy": EXTENDED,
    "accepted_statuses": "2xx",
    "filter": {"error": {"$startsWith": "No "}},
    "order": "key",
}

KEYS = 3
"""The number of ordering keys. Every key has admitted events and others, and events of every ending."""

TEMPERS = ("ok", "fails-2", "nocontent", "moody")
"""Receivers of webhooks with all choices, beside those of plain ones."""

OWN_HEADERS = {"x-tenant": TENANT, "authorization": "Basic " + b64encode(f"{USER}:{PASSWORD}".encode()).decode()}


def is_admitted(data: Mapping[str, Any]) -> bool:
    """Return True for the data of events that the filter lets through."""
    return str(data["error"]).startswith("No ")


def problems_of(request: Mapping[str, Any], keys: Sequence[str]) -> Iterator[str]:
    """Yield the choices that a request to a webhook does not honour. ``keys`` are all that it ever had."""
    place = f"request {request['number']} to {request['path']}"
    headers = request["headers"]
    for name, value in OWN_HEADERS.items():
        if headers.get(name) != value:
            yield f"{place} has {name}: {headers.get(name)}"
    for scheme in SCHEMES:
        try:
            verify(request["body"].encode(), headers, keys, tolerance=None, schemes=(scheme,))
        except WebhookVerificationError as error:
            yield f"{place}, {scheme.name}: {error}"


def has_all(webhook: Webhook) -> bool:
    return set(webhook.signatures) == set(SIGNATURES.built_in)
