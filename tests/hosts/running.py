"""A running host: its server and worker, its API and its console."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import requests

from ..support.databases import URL_VARIABLE
from ..support.servers.process import free_port, listens
from ..support.servers.process import running as running_process
from .environment import Environment
from .hosts import FOLDER, Host

LINK = re.compile(r'<a [^>]*?href="([^"]*)"')
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
MOST_PAGES = 20


@contextmanager
def database_of(host: Host) -> Generator[str]:
    """Yield the URL of a new database on the server of this run. SQLite uses a file in the host's directory."""
    if host.database == "sqlite":
        yield ""
        return
    import psycopg

    url = os.environ[URL_VARIABLE]
    name = f"host_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        finally:
            for each in (name, f"{name}_replica"):
                server.execute(f"DROP DATABASE IF EXISTS {each} WITH (FORCE)")


class Project:
    """A host in an environment, with a directory for its database and logs."""

    def __init__(self, host: Host, environment: Environment, directory: Path, **servers: str) -> None:
        self.host = host
        self.environment = environment
        self.directory = directory
        self.port = free_port()
        self.variables = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ},
            "PYTHONPATH": os.pathsep.join(map(str, host.path)),
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONUNBUFFERED": "1",
            "HOST_STATE": str(directory),
            **{f"HOST_{name.upper()}": url for name, url in servers.items()},
        }

    def prepare(self) -> dict[str, Any]:
        """Migrate and create the accounts. Return the output of ``prepare.py``."""
        return self.output_of(FOLDER / "project" / "prepare.py")

    def output_of(self, program: Path) -> dict[str, Any]:
        """Run a Python program of the host. Return the JSON of its last line."""
        found: dict[str, Any] = json.loads(self._output(self._command(f"python {program}")).splitlines()[-1])
        return found

    def manage(self, command: str) -> str:
        """Run a management command to its end. Return its output."""
        return self._output(self._command(f"django {command}"))

    def _output(self, command: list[str]) -> str:
        # Celery puts the current directory first on the path.
        options = {"cwd": self.directory, "env": self.variables, "capture_output": True, "text": True}
        done = subprocess.run(command, check=False, **options)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run the server and the worker."""
        with ExitStack() as stack:
            stack.enter_context(self._running("worker", self.host.work))
            stack.enter_context(self.serving())
            yield

    def serving(self) -> AbstractContextManager[object]:
        """Run only the server."""
        return self._running("web", self.host.serve)

    def log(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in self.directory.glob("*/server.log"))

    def address(self, path: str) -> str:
        return urljoin(f"http://127.0.0.1:{self.port}/", path)

    def _running(self, name: str, command: str) -> AbstractContextManager[object]:
        directory = self.directory / name
        directory.mkdir()
        return running_process(
            ["env", "--ignore-environment", *self._assignments(), *self._command(command)],
            directory=directory,
            ready=lambda: "{port}" not in command or listens(self.port),
        )

    def _assignments(self) -> Iterator[str]:
        for name, value in self.variables.items():
            yield f"{name}={value}"

    def _command(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command.format(project=FOLDER / "project", port=self.port))
        # -P: neither the script's directory nor the current one precedes the host's own folder.
        python = [str(self.environment.python), "-P"]
        return [*python, *arguments] if program == "python" else [*python, "-m", program, *arguments]


class Integrator:
    """A client of the API with a key, and of the host's own pages without one."""

    def __init__(self, project: Project, key: str) -> None:
        self.project = project
        self.session = requests.Session()
        self.session.headers.update({"Authorization": f"Bearer {key}", "Accept": "application/json"})

    def register(self, url: str, secret: str) -> dict[str, Any]:
        return self._call("POST", "/v1/webhooks", json={"url": url, "events": ["order.paid"], "secret": secret})

    def status(self, webhook: Mapping[str, Any]) -> str:
        """Return the status of a webhook. The rate limit of the API applies."""
        time.sleep(0.3)
        return str(self.get(f"/v1/webhooks/{webhook['id']}")["status"])

    def get(self, path: str) -> dict[str, Any]:
        return self._call("GET", path)

    def pay(self, order: str, *, decline: bool = False) -> requests.Response:
        """Pay an order in the host's shop, which emits an event in the request's transaction."""
        data = {"order": order, **({"decline": "yes"} if decline else {})}
        return requests.post(self.project.address("/pay/"), data=data, timeout=20)

    def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = self.session.request(method, self.project.address(path), timeout=20, **more)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:2000]}"
        assert answer.headers["Content-Type"].startswith("application/json"), answer.headers
        content: dict[str, Any] = answer.json()
        return content


class Customer:
    """A visitor of the customers' pages by a link, who clicks buttons and sends forms."""

    def __init__(self, project: Project, link: str) -> None:
        self.project = project
        self.session = requests.Session()
        self.home = self.sends(link).url
        assert re.fullmatch(r".*/webhooks/[^/]+/", self.home)

    def reads(self, path: str) -> str:
        return self._page(self.session.get(urljoin(self.home, path), timeout=20)).text

    def sends(self, path: str, **fields: str) -> requests.Response:
        """Send the form of a page, as a browser does. Return the page that follows."""
        url = urljoin(getattr(self, "home", self.project.address("")), path)
        hidden = dict(HIDDEN.findall(self._page(self.session.get(url, timeout=20)).text))
        return self._page(self.session.post(url, data={**hidden, **fields}, timeout=20))

    def _page(self, answer: requests.Response) -> requests.Response:
        assert answer.status_code == 200, f"{answer.url}: {answer.status_code} {answer.text[:500]} {self.project.log()}"
        assert 'class="errorlist' not in answer.text, answer.text
        return answer


class Staff:
    """A user of the console who follows its links."""

    def __init__(self, project: Project, name: str, password: str = "secret") -> None:
        self.project = project
        self.session = requests.Session()
        self.console = project.host.console
        login = self.get(self.console)
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', login.text)
        assert token, login.text
        fields = {"username": name, "password": password, "csrfmiddlewaretoken": token[1], "next": self.console}
        answer = self.session.post(login.url, data=fields, timeout=20)
        assert urlsplit(answer.url).path == self.console, answer.text

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.project.address(path), timeout=20)

    def statuses(self, start: str = "", most: int = MOST_PAGES) -> dict[str, int]:
        """Return the status by path of every linked page of the console, or of those below another path."""
        start = start or self.console
        found: dict[str, int] = {}
        waiting = [start]
        while waiting and len(found) < most:
            path = waiting.pop(0)
            answer = self.get(path)
            found[path] = answer.status_code
            for link in LINK.findall(answer.text):
                linked = urlsplit(urljoin(answer.url, link)).path
                if linked.startswith(start) and linked not in found and linked not in waiting:
                    waiting.append(linked)
        return found
