"""Diagnosis of everything that delivery depends on, with a hint for each problem, in the current language."""

from __future__ import annotations

from .examination import examine
from .findings import Finding, Level, worst

__all__ = ["Finding", "Level", "examine", "worst"]
