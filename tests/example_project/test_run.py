"""``make run`` as a developer runs it."""

from __future__ import annotations

import io
import re
import signal
import socket

import pytest
import requests

from example_project import run
from example_project.processes import Processes
from example_project.terminal import Terminal
from tests.support.servers.process import free_port
from tests.support.waiting import wait_until

from .commands import running


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def variables(tmp_path, port):
    return {"VAR_DIR": str(tmp_path), "PORT": str(port)}


def test_the_service_runs_until_interrupted(variables, port):
    with running("example_project.run", **variables) as program:
        password = program.wait_for_line(lambda line: "password" in line).split()[1]
        program.wait_for_line(lambda line: line.startswith("worker") and line.endswith("ready."))

        assert _log_in(port, "admin", password)
        wait_until(lambda: run.service.answers(port + run.RECEIVER_DISTANCE), lambda: program.output)
        assert [_status(port, "/webhooks/"), _status(port + run.RECEIVER_DISTANCE, "/webhooks/")] == [200, 404]
        program.process.send_signal(signal.SIGINT)

        assert program.wait() == 0, program.output
    addresses = [line.split()[:2] for line in program.lines if "http://" in line and "│" not in line]
    assert addresses[0] == ["customers", f"http://127.0.0.1:{port}/webhooks/"]
    assert program.lines[-1] == "Stopped."
    assert not [line for line in program.lines if " ERROR " in line or "Traceback" in line]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_service_can_be_stopped_during_its_start(variables):
    with running("example_project.run", **variables) as program:
        program.wait_for_line(lambda line: line.startswith("Migrating"))
        program.process.terminate()

        assert program.wait() == 0
    assert program.lines[1:] == ["Stopped."]


def test_a_port_in_use_is_reported(variables, port):
    with socket.create_server(("127.0.0.1", port)), running("example_project.run", **variables) as program:
        assert program.wait() == 1

    assert program.lines == [
        f"Port {port} is in use. Stop the other program, or choose another port: PORT=8001 make run"
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"PORT": "http"}, "PORT is 'http'", id="port"),
        pytest.param({"WEBHOOKS_ALLOW_HTTP": "perhaps"}, "WEBHOOKS_ALLOW_HTTP", id="setting"),
        pytest.param({"DEBUG": "false"}, "SECRET_KEY", id="no secret key"),
        pytest.param({"DATABASE_URL": "postgres://127.0.0.1:1/none"}, "The database cannot be used", id="database"),
    ],
)
def test_an_invalid_variable_is_named(variables, changes, said):
    with running("example_project.run", **{**variables, **changes}) as program:
        assert program.wait() == 1

    assert said in program.output
    assert "Traceback" not in program.output


def test_a_slow_start_is_reported_and_not_given_up(monkeypatch):
    answers = iter([False, False, False, True])
    printed = io.StringIO()
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 0)
    monkeypatch.setattr(run.service, "answers", lambda port: next(answers))

    run._await_web(Terminal(printed), Processes({}, print), 8000)

    assert printed.getvalue().count("Waiting for port 8000") == 3


def test_a_dead_program_stops_the_others(variables):
    # The worker fails because this broker's transport does not exist.
    with running("example_project.run", **variables, CELERY_BROKER_URL="carrier-pigeon://") as program:
        assert program.wait() == 1

    assert re.search("^(worker|beat) ended with status [1-9].*stopping the others", program.lines[-1])


def _status(port, path):
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"http://127.0.0.1:{port}{path}", timeout=20).status_code


def _log_in(port, username, password):
    session = requests.Session()
    session.trust_env = False
    page = session.get(f"http://127.0.0.1:{port}/admin/login/", timeout=20)
    token = re.search('name="csrfmiddlewaretoken" value="(.+?)"', page.text)[1]
    form = {"username": username, "password": password, "csrfmiddlewaretoken": token, "next": "/admin/"}
    return session.post(page.url, form, timeout=20).url == f"http://127.0.0.1:{port}/admin/"
