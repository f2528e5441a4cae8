"""Programs started and stopped as a group."""

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
    """Return True if a process, not necessarily a child, ends soon. A zombie counts as ended."""
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


def test_lines_are_passed_on_with_the_name_of_the_program(processes, listener):
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
def test_the_end_of_a_program_is_reported(processes, code, how):
    _start(processes, "web", SLEEP)
    _start(processes, "worker", code)

    with pytest.raises(ProcessEndedError, match=how):
        processes.wait(20)


def test_waiting_has_a_timeout(processes):
    _start(processes, "web", SLEEP)

    processes.wait(0.01)


def test_the_end_of_the_block_stops_all_programs(listener):
    with Processes(os.environ, listener) as processes:
        _start(processes, "web", SLEEP)
        _start(processes, "worker", SLEEP)
        pids = [process.pid for process in processes._running.values()]

    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIG_DFL)


@pytest.mark.skipif(not shutil.which("setpriv"), reason="only Linux, with util-linux, ends orphans by itself")
def test_a_killed_starter_stops_its_programs():
    code = (
        "import os, sys, time; from example_project.processes import Processes; "
        "processes = Processes(os.environ, print); "
        f"processes.start('web', [sys.executable, '-c', {SLEEP!r}]); "
        "print(processes._running['web'].pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as starter:
        # The program's first output may come before this line.
        pid = next(int(line) for line in starter.stdout if line.strip().isdigit())
        starter.kill()

    assert _ends(pid)


def test_a_program_that_does_not_stop_is_killed(processes, listener, monkeypatch):
    monkeypatch.setattr(processes_module, "PATIENCE_SECONDS", 0.1)
    _start(processes, "worker", STUBBORN)
    assert listener.heard.wait(20)

    processes.stop()

    assert processes._running["worker"].returncode == -signal.SIGKILL


def test_an_ended_program_can_be_stopped_again(processes):
    _start(processes, "worker", "")
    with pytest.raises(ProcessEndedError):
        processes.wait(20)

    processes.stop()
    processes.kill()
