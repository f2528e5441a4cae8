"""Folded calls in a thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from webhooks_app.wake.messages import FoldedCall


class Calls:
    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self.error = error
        self.may_return = threading.Event()
        self.may_return.set()

    def __call__(self) -> None:
        self.count += 1
        if self.error:
            raise self.error
        assert self.may_return.wait(30)


def test_no_call_waits_for_another_thread():
    calls = Calls()
    calls.may_return.clear()
    call = FoldedCall(calls, patience_seconds=60)

    started_at = time.monotonic()
    for _ in range(100):
        call()
    seconds = time.monotonic() - started_at
    calls.may_return.set()
    call.join()

    assert seconds < 5  # 30 s, if the first one waited
    assert calls.count == 1


@pytest.mark.parametrize(("call_seconds", "is_made"), [(0.3, True), (120, False)], ids=["short", "hanging"])
def test_a_process_that_ends_at_once_waits_for_its_call(call_seconds, is_made):
    script = f"""
import os, time
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from webhooks_app.wake.messages import FoldedCall
FoldedCall(lambda: (time.sleep({call_seconds}), print("made", flush=True)), patience_seconds=3)()
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert result.stdout == ("made\n" if is_made else "")


def test_calls_in_quick_succession_are_folded():
    calls = Calls()
    call = FoldedCall(calls, fold_seconds=60)

    for _ in range(1000):
        call()
    call.join()

    assert calls.count == 1


def test_a_call_after_the_folding_period_is_made():
    calls = Calls()
    call = FoldedCall(calls, fold_seconds=0.01)

    call()
    call.join()
    time.sleep(0.02)
    call()
    call.join()

    assert calls.count == 2


def test_a_late_request_during_a_hanging_call_causes_another_call():
    calls = Calls()
    calls.may_return.clear()
    call = FoldedCall(calls, fold_seconds=0.01)
    call()
    time.sleep(0.02)
    call()
    calls.may_return.set()

    deadline = time.monotonic() + 10
    while calls.count < 2 and time.monotonic() < deadline:
        time.sleep(0.005)

    assert calls.count == 2


def test_a_failing_call_is_logged_once(caplog):
    calls = Calls(ConnectionRefusedError("connection refused"))
    call = FoldedCall(calls, rest_seconds=0)

    for _ in range(5):
        call()
        call.join()

    assert calls.count == 5
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_failure_prevents_further_calls_for_a_while():
    calls = Calls(ConnectionRefusedError("connection refused"))
    call = FoldedCall(calls, rest_seconds=60)

    for _ in range(5):
        call()
        call.join()

    assert calls.count == 1


def test_calls_in_succession_share_a_thread():
    threads = []
    call = FoldedCall(lambda: threads.append(threading.current_thread()), fold_seconds=0)

    for _ in range(5):
        call()
        call.join()

    assert len(threads) == 5
    assert set(threads) == {threads[0]}


def test_an_idle_thread_ends_and_is_replaced():
    threads = []
    call = FoldedCall(lambda: threads.append(threading.current_thread()), fold_seconds=0, idle_seconds=0.01)

    for _ in range(3):
        call()
        call.join()
        threads[-1].join(30)

    assert [thread.is_alive() for thread in threads] == [False] * 3
    assert len(set(threads)) == 3


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="forks processes")
def test_a_forked_process_makes_its_own_calls():
    import os

    calls = Calls()
    call = FoldedCall(calls, fold_seconds=60)
    call()
    call.join()

    child = os.fork()
    if child == 0:
        call()
        call.join()
        os._exit(calls.count)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
