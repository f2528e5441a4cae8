"""Other databases: lagging replicas, and a separate database for the app."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.apps import apps

from webhooks_app.models.base import BaseQuerySet

ROOT = Path(__file__).parents[2]


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("written", ["default", "main"])
def test_everything_works_with_a_lagging_replica(tmp_path: Path, written: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.database.replica_host", str(tmp_path), written],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "CELERY_"))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]


def test_all_models_read_from_the_database_for_writes() -> None:
    models = apps.get_app_config("webhooks_app").get_models()

    plain = [
        model
        for model in models
        for manager in (model._default_manager, model._base_manager)
        if not isinstance(manager.all(), BaseQuerySet)
    ]

    assert plain == []
