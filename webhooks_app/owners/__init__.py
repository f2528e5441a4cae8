"""Owners: the accounts that own webhooks, events and API keys, and the project's policy for them."""

from __future__ import annotations

from .base import Access, BaseOwners
from .keys import owners_by_key, parse_key
from .members import MemberOwners
from .registry import owner_model, owner_rows, owners
from .registry import owner_model_name as owner_model_name
from .users import UserOwners

__all__ = [
    "Access",
    "BaseOwners",
    "MemberOwners",
    "UserOwners",
    "owner_model",
    "owner_rows",
    "owners",
    "owners_by_key",
    "parse_key",
]
