"""The manifests of ``deploy/kubernetes`` and their guide.

No cluster runs here: Kubernetes' own schemas judge the objects, and their commands run in processes with the
environment of the manifests.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import requests
from cryptography.fernet import Fernet
from django.core.management import call_command, get_commands, load_command_class

from tests.support.servers.process import free_port, listens, running
from webhooks_app.conf import Settings, setting_types
from webhooks_app.metrics.collector import WebhooksCollector

from .manifests import DOCUMENTS, FOLDER, containers, of_kind, pods

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "kubernetes.md").read_text()
SETTINGS: dict[str, str] = of_kind("ConfigMap")["settings/webhooks"]["data"]
SECRETS = {
    name: value.replace("…", Fernet.generate_key().decode())
    for name, value in re.findall(r"^([A-Z_]+)=(\S+)$", GUIDE, re.MULTILINE)
}
"""The variables of the Secret, from the block of the guide."""
PLAIN = [(file, each) for file, each in DOCUMENTS if "keda.sh" not in each["apiVersion"]]

pytestmark = pytest.mark.only_on("sqlite")


@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
@pytest.mark.parametrize(("file", "document"), PLAIN, ids=[f"{file}-{each['kind']}" for file, each in PLAIN])
def test_kubernetes_accepts_the_object(file: str, document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_refuse_a_word_that_kubernetes_does_not_know() -> None:
    worker = of_kind("Deployment")["workers/webhooks-workers"]

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**worker, "spec": {**worker["spec"], "replica": 2}}, "1.30", strict=True)


def test_each_selector_finds_the_pods_of_its_deployment() -> None:
    labels = {each["metadata"]["name"]: each["spec"]["template"]["metadata"] for each in of_kind("Deployment").values()}

    for each in of_kind("Deployment", "PodDisruptionBudget", "Service").values():
        selector = each["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels[each["metadata"]["name"]]["labels"].items()


def test_at_least_two_web_processes_and_workers_survive_a_drained_node() -> None:
    budgets = of_kind("PodDisruptionBudget")

    assert set(budgets) == {"web/webhooks-web", "workers/webhooks-workers", "celery/webhooks-workers"}
    assert {each["spec"]["maxUnavailable"] for each in budgets.values()} == {1}
    assert of_kind("Deployment")["web/webhooks-web"]["spec"]["replicas"] >= 2
    assert of_kind("HorizontalPodAutoscaler")["autoscaling/webhooks-workers"]["spec"]["minReplicas"] >= 2


@pytest.mark.parametrize("file", ["workers", "celery"])
def test_workers_have_time_to_finish_their_requests(file: str) -> None:
    assert pods()[f"{file}/webhooks-workers"]["terminationGracePeriodSeconds"] > _timeout() + 20


def test_web_processes_have_time_to_finish_their_requests() -> None:
    pod = pods()["web/webhooks-web"]
    (web,) = pod["containers"]
    command = web["command"]

    waits = int(web["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] > waits + int(command[command.index("--graceful-timeout") + 1])


def _timeout() -> float:
    return max(Settings.TIMEOUT_SECONDS, float(SETTINGS["WEBHOOKS_TIMEOUT_SECONDS"]))


def test_each_variable_is_read_by_the_settings() -> None:
    source = (ROOT / "example_project" / "settings.py").read_text()
    read = {*re.findall(r'env\.\w+\("(\w+)"', source), *setting_types(), "DJANGO_SETTINGS_MODULE"}

    assert {"DATABASE_URL", "SECRET_KEY", "WEBHOOKS_ENCRYPTION_KEYS"} <= set(SECRETS)
    assert {*SETTINGS, *SECRETS} - read == set()
    assert set(SETTINGS) & set(SECRETS) == set()


def test_each_container_reads_the_settings_and_the_secret() -> None:
    for name, container in containers():
        assert container["envFrom"] == [{"configMapRef": {"name": "webhooks"}}, {"secretRef": {"name": "webhooks"}}], (
            name
        )


def test_each_command_of_the_project_has_its_options() -> None:
    texts = [" ".join(container["command"]) for _, container in containers()]
    commands = [shlex.split(found) for text in texts for found in re.findall(r"manage\.py ([^;]+)", text)]

    for name, *arguments in commands:
        load_command_class(get_commands()[name], name).create_parser("manage.py", name).parse_args(arguments)
    assert {name for name, *_ in commands} == {"migrate", "deliver_webhooks", "prune_webhooks"}


def test_the_image_has_every_extra_that_the_manifests_need() -> None:
    """Without the extra `metrics` the example service has no page for Prometheus, and the autoscalers no metric."""
    assert 'pip install --no-cache-dir ".[all]"' in (ROOT / "deploy" / "Dockerfile").read_text()


@pytest.mark.django_db
def test_the_autoscalers_watch_metrics_of_the_app() -> None:
    exported = {each.name for each in WebhooksCollector().collect()}
    autoscaler = of_kind("HorizontalPodAutoscaler")["autoscaling/webhooks-workers"]["spec"]
    keda = of_kind("ScaledObject")["keda/webhooks-workers"]["spec"]

    metrics = [each["external"] for each in autoscaler["metrics"] if each["type"] == "External"]
    queries = [each["metadata"] for each in keda["triggers"] if each["type"] == "prometheus"]
    assert {each["metric"]["name"] for each in metrics} <= exported
    assert {name for each in queries for name in re.findall(r"webhooks_\w+", each["query"])} <= exported
    assert [each["target"]["averageValue"] for each in metrics] == [each["threshold"] for each in queries]
    assert (autoscaler["minReplicas"], autoscaler["maxReplicas"]) == (keda["minReplicaCount"], keda["maxReplicaCount"])
    targets = {autoscaler["scaleTargetRef"]["name"], keda["scaleTargetRef"]["name"]}
    assert targets == {"webhooks-workers"}
    for file in ("workers", "celery"):  # a number there would overrule the autoscaler at each release
        assert "replicas" not in of_kind("Deployment")[f"{file}/webhooks-workers"]["spec"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the variables of the processes, with a database in a file."""
    mine = {"DATABASE_URL": f"sqlite:///{tmp_path / 'db.sqlite3'}", "VAR_DIR": str(tmp_path)}
    return {**os.environ, **SETTINGS, **SECRETS, **mine}


def test_the_processes_run_as_the_manifests_say(environment: dict[str, str], tmp_path: Path) -> None:
    commands = {each["name"]: list(each["command"]) for name, each in containers() if not name.startswith("celery")}
    waits = re.search("until (.*); do sleep 5", commands["wait-for-migrations"][-1])[1].split()

    def run(command: list[str]) -> int:
        done = subprocess.run(_here(command), env=environment, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    assert run(waits) == 1
    assert run(commands["migrate"]) == 0
    assert run(waits) == 0
    assert run(commands["prune"]) == 0
    assert _answers(commands["web"], environment, tmp_path) == [200, 200, 200]
    assert _ends_with(commands["worker"], environment, tmp_path) == 0


def _here(command: list[str]) -> list[str]:
    """Return the command with the programs and files of this environment."""
    program = [sys.executable] if command[0] == "python" else [sys.executable, "-m", command[0]]
    return [*program, *(str(ROOT / word) if word == "manage.py" else word for word in command[1:])]


def _answers(command: list[str], environment: dict[str, str], folder: Path) -> list[int]:
    """Return the status of each probe while the command runs."""
    port = free_port()
    changes = {"0.0.0.0:8000": f"127.0.0.1:{port}", "4": "1"}  # one process is enough
    command = [changes.get(word, word) for word in _here(command)]
    (web,) = pods()["web/webhooks-web"]["containers"]
    probes = [web[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} == {port["name"] for port in web["ports"]}
    with running(command, directory=folder, ready=lambda: listens(port), env={**environment, "PYTHONPATH": str(ROOT)}):
        return [
            requests.get(
                f"http://127.0.0.1:{port}{probe['path']}",
                headers={header["name"]: header["value"] for header in probe["httpHeaders"]},
                timeout=30,
            ).status_code
            for probe in probes
        ]


def _ends_with(command: list[str], environment: dict[str, str], folder: Path) -> int | None:
    """Return the exit status of a worker that gets SIGTERM when it delivers."""

    def delivers() -> bool:
        return "Delivering webhooks" in (folder / "server.log").read_text()

    with running(_here(command), directory=folder, ready=delivers, env=environment) as worker:
        pass
    return worker.returncode


FIGURES = GUIDE.partition("| deliveries a day |")[2].partition("\n\n")[0].splitlines()


@pytest.mark.parametrize(("column", "a_day"), [(1, 10**6), (2, 10**8), (3, 10**9)])
def test_the_figures_of_the_guide_are_those_of_the_command(column: int, a_day: int) -> None:
    printed = io.StringIO()
    (command,) = re.findall(r"manage\.py (estimate_capacity .*11574 .*)", GUIDE)

    call_command(*command.replace("11574", f"{a_day / 86_400:.5g}").split(), "--transport", "native", stdout=printed)

    estimated = dict(re.findall(r"^([a-z ]+?) {2,}(.*)$", printed.getvalue(), re.MULTILINE))
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in FIGURES[2:]]
    assert len(rows) == 6
    for row in rows:
        shown, whole = row[column], estimated[row[0]]
        assert whole == shown or whole.startswith((f"{shown}, ", f"{shown} (")), row[0]


def test_the_guide_names_each_file() -> None:
    linked = set(re.findall(r"deploy/kubernetes/(\w+\.yaml)", GUIDE))

    assert linked == {path.name for path in FOLDER.glob("*.yaml")}
