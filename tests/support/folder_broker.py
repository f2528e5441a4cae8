"""The broker of the example project without its Celery app, which would become the current one when imported."""

from __future__ import annotations

import runpy
from pathlib import Path

_names = runpy.run_path(str(Path(__file__).parents[2] / "example_project" / "broker.py"))

Transport = _names["Transport"]
transport_options = _names["transport_options"]
