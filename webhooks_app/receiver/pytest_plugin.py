"""Fixtures for the tests of a project that receives webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

__all__ = ["webhook_secret", "webhook_sender"]

if TYPE_CHECKING:
    from .sender import WebhookSender


@pytest.fixture
def webhook_secret() -> str:
    """The secret that the events of ``webhook_sender`` are signed with. Override it to return that of your app."""
    from .schemes import NativeSignature  # noqa: PLC0415

    return NativeSignature().new_key()


@pytest.fixture
def webhook_sender(webhook_secret: str) -> WebhookSender:
    """Sends signed events to your app: ``webhook_sender.send(client, "/hooks", "invoice.paid", {"number": 7})``."""
    # This module is imported in every test run of the project.
    from .sender import WebhookSender  # noqa: PLC0415

    return WebhookSender(webhook_secret)
