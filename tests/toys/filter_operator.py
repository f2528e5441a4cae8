"""A filter operator: a text that reads the same from both ends."""

from __future__ import annotations

from typing import Any

from webhooks_app.filters import BaseOperator


class PalindromeOperator(BaseOperator):
    name = "$palindrome"

    def problem(self, operand: Any) -> str:
        return "" if operand is True else "must be true"

    def holds(self, value: Any, operand: Any) -> bool:
        return isinstance(value, str) and value == value[::-1]

    def wanted(self, operand: Any) -> str:
        return "a palindrome"
