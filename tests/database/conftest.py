"""Fixtures of the delivery tests: an account and its webhook."""

from ..delivery.conftest import webhook  # noqa: F401
