"""The fixtures of the delivery tests: an account and a webhook of it."""

from ..delivery.conftest import alice, webhook  # noqa: F401
