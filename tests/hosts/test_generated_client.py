"""A client that is generated from the OpenAPI document, in an environment of its own, with a live service."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from webhooks_app.receiver.local import LocalReceiver

from ..support.missing import skip_without
from .environment import Environment
from .hosts import FOLDER, HOSTS
from .running import Project

GENERATOR = "openapi-python-client==0.29.1"


@pytest.fixture
def life(tmp_path: Path) -> Callable[..., Any]:
    """Generate the client of a document, and run a webhook's life with it."""
    binaries = tmp_path / "generator" / "bin"
    venv.create(tmp_path / "generator", with_pip=True)
    installed = _run(binaries / "python", "-m", "pip", "install", "--quiet", GENERATOR)
    if installed.returncode:
        skip_without(f"{GENERATOR} cannot be installed: {installed.stderr}")

    def life(document: dict[str, Any], *arguments: str) -> Any:
        path = tmp_path / "client"
        if not path.exists():
            (tmp_path / "openapi.json").write_text(json.dumps(document))
            options = ("--path", tmp_path / "openapi.json", "--output-path", path, "--meta", "none")
            generated = _run(binaries / "openapi-python-client", "generate", *options)
            assert generated.returncode == 0, generated.stdout + generated.stderr
        done = _run(binaries / "python", FOLDER / "generated_client_life.py", *arguments, PYTHONPATH=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return life


def _run(program: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.timeout(300)
@pytest.mark.only_on("sqlite")
def test_a_generated_client_accepts_values_that_a_later_version_adds(
    life: Callable[..., Any], environment: Environment, tmp_path: Path
) -> None:
    host = next(host for host in HOSTS if host.name == "without_celery_sqlite")
    project = Project(host, environment, tmp_path)
    prepared = project.prepare()
    document = project.output_of(FOLDER / "project" / "show_api.py")["document"]
    with LocalReceiver(secrets=[]) as receiver, project.running():
        delivery = life(document, project.address("/"), prepared["key"], receiver.url)
        changes = "DeliveryAttempt.objects.update(result='quota_exceeded')"
        project.manage(f'shell -c "from webhooks_app.models import DeliveryAttempt; {changes}"')
        later = life(document, project.address("/"), prepared["key"], "")

    assert (delivery["kind"], delivery["state"]) == ("test", "succeeded"), project.log()
    assert [each["result"] for each in delivery["attempts"]] == ["succeeded"]
    assert (later["id"], later["state"]) == (delivery["id"], "succeeded")
    assert [each["result"] for each in later["attempts"]] == ["quota_exceeded"]
