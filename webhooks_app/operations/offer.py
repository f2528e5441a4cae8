"""The values that owners may choose for their webhooks."""

from __future__ import annotations

from typing import Any

from ..choices import offered_operators, offered_orders, offered_policies, offered_signatures, retry_policy
from ..filters import COMBINING
from ..models import Webhook
from ..retry import BaseRetryPolicy
from ..signatures import BaseSignature


def describe_offer() -> dict[str, Any]:
    """Return the offered values with explanations, as plain data."""
    return {
        "signatures": [_signature(scheme) for scheme in offered_signatures().values()],
        "retry_policies": [_policy(policy) for policy in offered_policies().values()],
        "accepted_statuses": list(Webhook.AcceptedStatuses.values),
        "orders": list(offered_orders()),
        "filter_operators": [*COMBINING, *offered_operators()],
    }


def _signature(scheme: BaseSignature) -> dict[str, Any]:
    return {"name": scheme.name, "description": scheme.description, "headers": list(scheme.header_names)}


def _policy(policy: BaseRetryPolicy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "description": policy.description,
        "is_default": policy.name == retry_policy().name,
        "max_attempts": policy.max_attempts,
        "delays_seconds": [delay.total_seconds() for delay in policy.delays],
    }
