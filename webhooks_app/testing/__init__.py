"""Test kit for projects that send webhooks, without a network, waiting or a broker."""

from __future__ import annotations

from .kit import Webhooks, WebhooksMixin, containing, instance_of, matching, satisfying
from .receiver import ManualClock, ReceivedRequest, ScriptedReceiver

__all__ = [
    "ManualClock",
    "ReceivedRequest",
    "ScriptedReceiver",
    "Webhooks",
    "WebhooksMixin",
    "containing",
    "instance_of",
    "matching",
    "satisfying",
]
