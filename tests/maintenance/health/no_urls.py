"""A project without pages."""

from __future__ import annotations

urlpatterns: list[object] = []
