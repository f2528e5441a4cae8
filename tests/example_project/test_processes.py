"""Several programs as one: started, heard and stopped together."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from example_project import processes as processes_module
from example_project.processes import ProcessEndedError, Processes

SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"


class Listener:
    def __init__(self):
        self.lines = []
        self.heard = threading.Event()

    def __call__(self, name, line):
        self.lines.append((name, line))
        self.heard.set()


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def processes(listener):
    with Processes({**os.environ, "GREETING": "hello"}, listener) as processes:
        yield processes


def _start(processes, name, code):
    processes.start(name, [sys.executable, "-c", code])


def test_lines_are_heard_with_the_name_of_who_says_them(processes, listener):
    _start(processes, "web", "import os, sys; print(os.environ['GREETING']); print('bad', file=sys.stderr)")

    with pytest.raises(ProcessEndedError):
        processes.wait(20)

    assert listener.lines == [("web", "hello"), ("web", "bad")]


@pytest.mark.parametrize(
    ("code", "how"),
    [
        pytest.param("raise SystemExit(3)", "worker ended with status 3", id="status"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "worker was ended by SIGKILL", id="signal"),
    ],
)
def test_one_that_ends_is_told(processes, code, how):
    _start(processes, "web", SLEEP)
    _start(processes, "worker", code)

    with pytest.raises(ProcessEndedError, match=how):
        processes.wait(20)


def test_waiting_ends_after_its_time(processes):
    _start(processes, "web", SLEEP)

    processes.wait(0.01)


def test_leaving_stops_all(listener):
    with Processes(os.environ, listener) as processes:
        _start(processes, "web", SLEEP)
        _start(processes, "worker", SLEEP)
        pids = [process.pid for process in processes._running.values()]

    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIG_DFL)


def test_one_that_will_not_stop_is_killed(processes, listener, monkeypatch):
    monkeypatch.setattr(processes_module, "PATIENCE_SECONDS", 0.1)
    _start(processes, "worker", STUBBORN)
    assert listener.heard.wait(20)

    processes.stop()

    assert processes._running["worker"].returncode == -signal.SIGKILL


def test_one_that_ended_before_may_be_stopped_again(processes):
    _start(processes, "worker", "")
    with pytest.raises(ProcessEndedError):
        processes.wait(20)

    processes.stop()
    processes.kill()
