"""Owners: the accounts that own webhooks, events and API keys, and the project's policy for them."""

from __future__ import annotations

from .base import Access, BaseOwners
from .members import MemberOwners
from .registry import owner_model, owners
from .registry import owner_model_name as owner_model_name
from .users import UserOwners

__all__ = ["Access", "BaseOwners", "MemberOwners", "UserOwners", "owner_model", "owners"]
