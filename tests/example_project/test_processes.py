"""Several programs as one: started, heard and stopped together."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

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


def _ends(pid):
    """Tell whether a process that is not our child ends soon; what init has not reaped yet has ended, too."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


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


@pytest.mark.skipif(not shutil.which("setpriv"), reason="only Linux, with util-linux, ends orphans by itself")
def test_when_the_starter_is_killed_the_others_end_too():
    code = (
        "import os, sys, time; from example_project.processes import Processes; "
        "processes = Processes(os.environ, print); "
        f"processes.start('web', [sys.executable, '-c', {SLEEP!r}]); "
        "print(processes._running['web'].pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as starter:
        # What the program says as soon as it runs may come first.
        pid = next(int(line) for line in starter.stdout if line.strip().isdigit())
        starter.kill()

    assert _ends(pid)


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
