"""Problems that are logged once, although they occur again and again."""

from __future__ import annotations

from collections.abc import Hashable

MOST_KEYS = 10_000


class Once:
    """Remembers what was logged. A full memory starts anew."""

    def __init__(self) -> None:
        self._keys: set[Hashable] = set()

    def is_first(self, key: Hashable) -> bool:
        """Return True the first time for each key."""
        if key in self._keys:
            return False
        if len(self._keys) >= MOST_KEYS:
            self._keys.clear()
        self._keys.add(key)
        return True
