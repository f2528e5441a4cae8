"""The manifests of ``deploy/kubernetes``, as Kubernetes reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
DOCUMENTS: list[tuple[str, dict[str, Any]]] = [
    (path.stem, document) for path in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
]
"""Each object, with the name of its file."""


def of_kind(*kinds: str) -> dict[str, dict[str, Any]]:
    """Return the objects of these kinds by their file and name."""
    return {f"{file}/{each['metadata']['name']}": each for file, each in DOCUMENTS if each["kind"] in kinds}


def pods() -> dict[str, dict[str, Any]]:
    """Return the specification of the pods of each workload."""
    specs = {name: each["spec"] for name, each in of_kind("Deployment", "Job", "CronJob").items()}
    return {name: spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"] for name, spec in specs.items()}


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, pod in pods().items():
        yield from ((name, each) for each in [*pod.get("initContainers", []), *pod["containers"]])
