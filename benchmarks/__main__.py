"""``python -m benchmarks [SCENARIO]``: measure, print a table, and on request one JSON line."""

from __future__ import annotations

import sys

import django

django.setup()  # before the scenarios import models

from .command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
