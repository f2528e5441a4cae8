"""Resolving names beside the caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from webhooks_app.transport import resolver
from webhooks_app.transport.resolver import MAX_SLOW_THREADS, MAX_THREADS, NameResolver, resolve_by_system
from webhooks_app.transport.threads import DaemonThreads


def test_the_system_is_asked_by_default() -> None:
    assert resolve_by_system("127.0.0.1", 80) == ["127.0.0.1"]


def test_lookups_of_one_name_at_the_same_time_share_one_answer() -> None:
    asked: list[str] = []
    go = threading.Event()

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        go.wait(10)
        return ["192.0.2.1"]

    names = NameResolver(resolve)
    waiting = [names.lookup("a.example", 443) for _ in range(50)]
    go.set()

    assert {answer.result(10) for answer in waiting} == {("192.0.2.1",)}
    assert asked == ["a.example"]


def test_a_later_lookup_asks_again() -> None:
    looked = iter([["192.0.2.1"], ["192.0.2.2"]])
    names = NameResolver(lambda _host, _port: next(looked))

    assert names.lookup("a.example", 443).result(10) == ("192.0.2.1",)
    assert names.lookup("a.example", 443).result(10) == ("192.0.2.2",)


def test_names_that_hang_take_a_bounded_number_of_threads() -> None:
    asked: list[str] = []
    go, all_busy = threading.Event(), threading.Barrier(MAX_THREADS + 1)

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        if len(asked) <= MAX_THREADS:
            all_busy.wait(10)
        go.wait(10)
        return []

    names = NameResolver(resolve)
    waiting = [names.lookup(f"{number}.example", 443) for number in range(MAX_THREADS * 3)]
    all_busy.wait(10)
    asked_meanwhile = len(asked)
    go.set()

    assert asked_meanwhile == MAX_THREADS
    assert all(answer.result(10) == () for answer in waiting)


class HangingNames:
    """A resolver for which names hang as long as they are told to."""

    def __init__(self) -> None:
        self.hanging = threading.Event()
        self.asked = threading.Semaphore(0)

    def __call__(self, host: str, _port: int) -> list[str]:
        if host.startswith("hang"):
            self.asked.release()
            self.hanging.wait(20)
        return ["192.0.2.1"]

    def ask_for(self, names: NameResolver, count: int) -> list[Future[tuple[str, ...]]]:
        return [names.lookup(f"hang{number}.example", 443) for number in range(count)]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingNames]:
    """Names that hung once, for longer than anybody waits."""
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 1.0)
    made = HangingNames()
    yield made
    made.hanging.set()


def test_names_that_hung_leave_the_others_their_threads(hanging: HangingNames) -> None:
    names = NameResolver(hanging)
    first = hanging.ask_for(names, MAX_THREADS)
    assert all(hanging.asked.acquire(timeout=10) for _ in first)
    time.sleep(1.1)  # what makes them slow is time alone
    hanging.hanging.set()
    assert all(answer.result(10) for answer in first)
    hanging.hanging.clear()

    hanging.ask_for(names, MAX_THREADS)
    assert all(hanging.asked.acquire(timeout=10) for _ in range(MAX_SLOW_THREADS))

    assert names.lookup("healthy.example", 443).result(10) == ("192.0.2.1",)
    assert not hanging.asked.acquire(blocking=False)


def test_a_name_that_recovers_is_looked_up_as_any_other(hanging: HangingNames) -> None:
    names = NameResolver(hanging)
    (answer,) = hanging.ask_for(names, 1)
    time.sleep(1.1)
    hanging.hanging.set()
    answer.result(10)
    assert list(names._slow_names) == ["hang0.example"]

    names.lookup("hang0.example", 443).result(10)

    assert names._slow_names == {}


def test_a_name_that_nobody_waits_for_any_more_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", -1.0)
    names = NameResolver(lambda _host, _port: pytest.fail("asked"))

    assert names.lookup("a.example", 443).result(10) == ()


def test_an_error_reaches_all_who_wait_and_the_next_is_served() -> None:
    looked = iter([[], ["192.0.2.1"]])

    def resolve(_host: str, _port: int) -> list[str]:
        answer = next(looked)
        if not answer:
            raise OSError("no such name")
        return answer

    names = NameResolver(resolve)

    with pytest.raises(OSError, match="no such name"):
        names.lookup("a.example", 443).result(10)
    assert names.lookup("a.example", 443).result(10) == ("192.0.2.1",)


def test_a_pool_runs_everything_in_no_more_threads_than_its_limit() -> None:
    pool, done, together = DaemonThreads("pool", 3), threading.Semaphore(0), []

    def work() -> None:
        together.append(sum(thread.name == "pool" for thread in threading.enumerate()))
        time.sleep(0.01)
        done.release()

    for _ in range(20):
        pool.submit(work)

    assert all(done.acquire(timeout=10) for _ in range(20))
    assert max(together) <= 3
    pool.close()


class ScarceThreads:
    """Lets threads begin only while there are ``left``, as a system at its limit does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        really_start = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if not self.left:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            really_start(thread)

        monkeypatch.setattr(threading.Thread, "start", start)


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> ScarceThreads:
    return ScarceThreads(monkeypatch)


def test_a_thread_that_cannot_begin_costs_a_pool_no_place(scarce: ScarceThreads) -> None:
    pool, done, forgotten = DaemonThreads("pool", 1), threading.Event(), threading.Event()

    with pytest.raises(RuntimeError, match="new thread"):
        pool.submit(forgotten.set)
    scarce.left = 1
    pool.submit(done.set)

    assert done.wait(10)
    assert not forgotten.is_set()
    pool.close()


def test_work_waits_for_the_threads_there_are_where_no_more_can_begin(scarce: ScarceThreads) -> None:
    pool, go, done = DaemonThreads("pool", 2), threading.Event(), threading.Event()
    scarce.left = 1
    pool.submit(lambda: go.wait(10) and None)

    pool.submit(done.set)
    go.set()

    assert done.wait(10)
    pool.close()


def test_a_name_whose_thread_cannot_begin_fails_at_once_and_is_asked_for_anew(scarce: ScarceThreads) -> None:
    names = NameResolver(lambda _host, _port: ["192.0.2.1"])

    with pytest.raises(RuntimeError, match="new thread"):
        names.lookup("a.example", 443).result(10)
    scarce.left = 1

    assert names.lookup("a.example", 443).result(10) == ("192.0.2.1",)
