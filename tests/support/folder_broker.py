"""The example project's broker without the project, whose Celery app would become the current one when imported."""

from __future__ import annotations

import runpy
from pathlib import Path

_names = runpy.run_path(str(Path(__file__).parents[2] / "example_project" / "broker.py"))

Transport = _names["Transport"]
transport_options = _names["transport_options"]
