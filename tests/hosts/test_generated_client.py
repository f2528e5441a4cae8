"""Clients that are generated from the OpenAPI document, in environments of their own, with a live service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from webhooks_app.receiver.local import LocalReceiver

from ..support.missing import skip_without
from .environment import Environment
from .hosts import FOLDER, HOSTS
from .running import Project

GENERATOR = "openapi-python-client==0.29.1"

Life = Callable[..., Any]


def in_python(document: Path, folder: Path) -> Life:
    """Generate a client in Python. Return a function that lives with it."""
    binaries = folder / "generator" / "bin"
    venv.create(folder / "generator", with_pip=True)
    installed = _run(binaries / "python", "-m", "pip", "install", "--quiet", GENERATOR)
    if installed.returncode:
        skip_without(f"{GENERATOR} cannot be installed: {installed.stderr}")
    options = ("--path", document, "--output-path", folder / "client", "--meta", "none")
    _checked(binaries / "openapi-python-client", "generate", *options)
    program = FOLDER / "generated_client_life.py"
    return lambda *arguments: json.loads(_checked(binaries / "python", program, *arguments, PYTHONPATH=str(folder)))


def in_typescript(document: Path, folder: Path) -> Life:
    """Generate a client in TypeScript, and check the types of the life. Return a function that lives with it."""
    path = Path(shutil.copytree(FOLDER / "typescript", folder / "typescript"))
    binaries = path / "node_modules" / ".bin"
    installed = _run("npm", "ci", "--prefix", path, "--ignore-scripts", "--no-audit", "--no-fund")
    if installed.returncode:
        skip_without(f"The packages of {path} cannot be installed: {installed.stderr}")
    _checked(binaries / "openapi-typescript", document, "--output", path / "schema.d.ts")
    _checked(binaries / "tsc", "--strict", "--target", "es2022", "--module", "nodenext", path / "life.ts")
    return lambda *arguments: json.loads(_checked("node", path / "life.js", *arguments))


def _run(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, env=environment)


def _checked(*command: object, **variables: str) -> str:
    done = _run(*command, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


ADDED = """
from webhooks_app.models import Delivery, DeliveryAttempt, Event
Delivery.objects.update(state="postponed")
DeliveryAttempt.objects.update(result="quota_exceeded")
Event.objects.update(type="order.shipped")
"""
"""A state, a result and an event type of a later version."""


@pytest.fixture(scope="module")
def service(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a running service, with its document in the file ``openapi.json`` of its folder."""
    host = next(host for host in HOSTS if host.name == "without_celery_sqlite")
    project = Project(host, environment, tmp_path_factory.mktemp("service"))
    project.prepare()
    document = project.output_of(FOLDER / "project" / "show_api.py")["document"]
    (project.directory / "openapi.json").write_text(json.dumps(document))
    with project.running():
        yield project


@pytest.mark.timeout(300)
@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("generate", [in_python, in_typescript])
def test_a_generated_client_accepts_values_that_a_later_version_adds(
    generate: Callable[[Path, Path], Life], service: Project, tmp_path: Path
) -> None:
    life = generate(service.directory / "openapi.json", tmp_path)
    key = service.manage("create_api_key alice").strip()
    with LocalReceiver(secrets=[]) as receiver:
        delivery = life(service.address("/"), key, receiver.url)
        service.manage(f"shell -c '{ADDED}'")
        later = life(service.address("/"), key, "")

    assert (delivery["event_type"], delivery["state"]) == ("order.paid", "succeeded"), service.log()
    assert [each["result"] for each in delivery["attempts"]] == ["succeeded"]
    assert (later["id"], later["event_type"], later["state"]) == (delivery["id"], "order.shipped", "postponed")
    assert [each["result"] for each in later["attempts"]] == ["quota_exceeded"]
