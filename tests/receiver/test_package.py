"""The distribution webhooks-receiver: its content, older Pythons, and its README with the running example service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

import webhooks_app
from example_project.demo.client import Client
from example_project.demo.stage import Stage

from ..support.once import made_once
from ..support.servers.process import free_port, listens, running
from ..support.waiting import wait_until

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "webhooks-receiver"
SOURCE = ROOT / "webhooks_app" / "receiver"
BLOCKS = dict(
    re.findall(r"^(\w+):\n\n```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.MULTILINE | re.DOTALL)
)
SECRET = "whsec_YSBzZWNyZXQgb2YgdGhlIHJlY2VpdmVycyBpbiB0ZXN0cw=="

pytestmark = pytest.mark.only_on("sqlite")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as for a release."""
    return next(made_once(tmp_path_factory, "receiver", _build).glob("*.whl"))


def _build(directory: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, FOLDER]
    subprocess.run(command, check=True, capture_output=True)


def test_the_wheel_contains_the_files_of_the_app(wheel: Path) -> None:
    with ZipFile(wheel) as packed:
        found = {name: packed.read(name) for name in packed.namelist() if not name.startswith("webhooks_receiver-")}

    files = [path for path in SOURCE.iterdir() if path.is_file()]
    assert found == {f"webhooks_receiver/{path.name}": path.read_bytes() for path in files}


def test_the_page_for_integrators_has_the_views_of_the_readme() -> None:
    page = (ROOT / "docs" / "integrators" / "verifying.md").read_text()

    assert len(BLOCKS) == 3
    assert [name for name, code in BLOCKS.items() if f"{name}:\n\n```python\n{code}```" not in page] == []


def test_the_two_distributions_belong_together() -> None:
    ours, apps = (tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (FOLDER, ROOT))

    assert ours["version"] == webhooks_app.__version__
    assert ours["dependencies"] == []
    assert ours["entry-points"]["pytest11"].keys() <= apps["entry-points"]["pytest11"].keys()
    assert (FOLDER / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


VERIFY = """
import json, sys
from datetime import datetime, timezone
from typing import get_type_hints
from urllib.request import Request, urlopen
import webhooks_receiver
from webhooks_receiver import WebhookVerificationError, signed_request, verify
from webhooks_receiver.local import LocalReceiver

for vector in json.load(open(sys.argv[1], encoding="utf-8"))["vectors"]:
    headers = {"X-Webhook-Signature": vector["signature"], "X-Webhook-Timestamp": vector["timestamp"]}
    others = {"X-Webhook-Signature-Previous": vector["previous"], "X-Webhook-Signature-Next": vector["next"]}
    headers.update({name: value for name, value in others.items() if value}, **{"X-Webhook-Event": "invoice.paid"})
    try:
        now = datetime.fromtimestamp(vector["now"], timezone.utc)
        verify(vector["body"].encode(), headers, vector["secret"], now=now)
        is_genuine = True
    except WebhookVerificationError:
        is_genuine = False
    # The signature of the empty body is genuine, but it is no event.
    assert is_genuine is (vector["genuine"] and vector["body"] != ""), vector
with LocalReceiver(secrets=["a secret"]) as receiver:
    body, headers = signed_request("invoice.paid", {"number": 7}, "a secret")
    assert urlopen(Request(receiver.url, body, headers)).status == 200
    (event,) = receiver.events()
    assert event.is_verified, event
for name in webhooks_receiver.__all__:  # FastAPI reads the types of each function that it calls
    public = getattr(webhooks_receiver, name)
    functions = [each for each in vars(public).values() if hasattr(each, "__code__")] if callable(public) else []
    for typed in (public, *functions) if callable(public) else ():
        get_type_hints(typed)
get_type_hints(LocalReceiver.__init__)
assert not {"django", "cryptography", "webhooks_app"} & sys.modules.keys()
"""


def pythons() -> list[str]:
    """Return the interpreters of this machine from 3.9 on, one of each version."""
    names = [f"python3.{minor}" for minor in range(9, 16)]
    pyenv = Path.home() / ".pyenv" / "versions"
    found = {name: shutil.which(name) or next(map(str, pyenv.glob(f"{name[6:]}*/bin/{name}")), "") for name in names}
    return [path for path in found.values() if path and _runs(path)] or [sys.executable]


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_the_package_works_without_any_other(wheel: Path, python: str) -> None:
    command = [python, "-W", "error", "-c", VERIFY, ROOT / "docs" / "_static" / "vectors.json"]
    done = subprocess.run(command, env={"PYTHONPATH": str(wheel)}, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_source_uses_nothing_newer_than_python_3_9() -> None:
    command = [sys.executable, "-m", "pyright", "--pythonversion", "3.9", "--pythonpath", sys.executable, SOURCE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.wait_until_ready()
        yield stage


SERVERS = {
    "Django": "-m django runserver --noreload {port}",
    "Flask": "-m flask run --port {port}",
    "FastAPI": "-m uvicorn app:app --port {port}",
}
DJANGO_SETTINGS = "SECRET_KEY = 'x' * 50\nALLOWED_HOSTS = ['*']\nROOT_URLCONF = 'mysite.urls'\n"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("framework", "scheme"), [("Django", "native"), ("Flask", "native"), ("FastAPI", "native"), ("Flask", "standard")]
)
def test_the_receivers_of_the_readme_work_with_the_running_service(
    stage: Stage, wheel: Path, tmp_path: Path, framework: str, scheme: str
) -> None:
    path = tmp_path / BLOCKS[framework].splitlines()[0].removeprefix("# ")
    path.parent.mkdir(exist_ok=True)
    path.write_text(BLOCKS[framework])
    (tmp_path / "settings.py").write_text(DJANGO_SETTINGS)
    port = free_port()
    variables = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(wheel)]),
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "settings",
        "WEBHOOK_SECRET": SECRET,
    }
    command = [sys.executable, *SERVERS[framework].format(port=port).split()]
    client = Client(stage.base_url, stage.manage("create_api_key", "carla", "--create-user"))
    with running(command, directory=tmp_path, ready=lambda: listens(port), env=variables):
        content = {"url": f"http://127.0.0.1:{port}/hooks", "events": ["user.registered"], "secret": SECRET}
        webhook = client.post("/v1/webhooks", {**content, "signatures": [scheme]}, expect=201)
        address = f"/v1/webhooks/{webhook['id']}"
        wait_until(lambda: client.get(address)["status"] == "active", lambda: str(client.get(address)))
        client.post("/v1/webhooks/test", {"webhook_id": webhook["id"], "event_type": "user.registered"})
        log = tmp_path / "server.log"
        wait_until(lambda: re.search(r"^evt_\w+ user\.registered {", log.read_text(), re.MULTILINE), log.read_text)
