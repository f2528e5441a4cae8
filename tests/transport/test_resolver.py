"""Name resolution in separate threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from webhooks_app.transport import errors, resolver
from webhooks_app.transport.resolver import (
    ANSWERS_TO_FORGIVE,
    MAX_LOOKUPS,
    THREADS,
    DaemonThreads,
    LookupAnswer,
    NamePaces,
    NameResolver,
    Pace,
)

from ..support.waiting import wait_until


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


def test_a_later_lookup_resolves_again() -> None:
    looked = iter([["192.0.2.1"], ["192.0.2.2"]])
    names = NameResolver(lambda _host, _port: next(looked))

    assert names.lookup("a.example", 443).result(10) == ("192.0.2.1",)
    assert names.lookup("a.example", 443).result(10) == ("192.0.2.2",)


class HangingNames:
    """A resolver for which names beginning with "hang" hang until ``released`` is set."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str, _port: int) -> list[str]:
        self.asked.append(host)
        if host.startswith("hang"):
            self.released.wait(30)
        return ["192.0.2.1"]

    def count(self) -> int:
        return sum(host.startswith("hang") for host in self.asked)


@pytest.fixture
def hanging() -> Iterator[HangingNames]:
    made = HangingNames()
    yield made
    made.released.set()


@pytest.fixture
def names(hanging: HangingNames) -> Iterator[NameResolver]:
    made = NameResolver(hanging)
    yield made
    made.close()


def hang(names: NameResolver, count: int, *, owner: str = "", domain: str = "{}.example") -> list[LookupAnswer]:
    """Look up hanging names, each in a domain of its own by default."""
    return [names.lookup(f"hang{number}.{domain.format(number)}", 443, owner) for number in range(count)]


def test_hanging_names_use_a_limited_number_of_threads(names: NameResolver, hanging: HangingNames) -> None:
    for number in range(MAX_LOOKUPS * 2):
        names.lookup(f"hang{number}.d{number}.example", 443, f"owner{number}")
    wait_until(lambda: hanging.count() > 0)
    time.sleep(0.2)

    assert hanging.count() <= THREADS[Pace.UNKNOWN]


def test_200_hanging_names_of_two_owners_do_not_delay_a_third_owner(names: NameResolver, hanging: HangingNames) -> None:
    hang(names, 100, owner="one", domain="d{}.test")
    hang(names, 100, owner="two", domain="e{}.test")

    assert names.lookup("healthy.example", 443, "three").result(10) == ("192.0.2.1",)


def test_hanging_names_of_one_domain_do_not_delay_other_domains_of_the_owner(
    names: NameResolver, hanging: HangingNames
) -> None:
    hang(names, 200, domain="slow.test")

    assert names.lookup("healthy.example", 443).result(10) == ("192.0.2.1",)


def test_a_fast_name_is_resolved_while_all_other_threads_hang(names: NameResolver, hanging: HangingNames) -> None:
    names.lookup("healthy.example", 443, "one").result(10)
    for number in range(300):
        names.lookup(f"hang{number}.d{number}.test", 443, f"owner{number}")

    assert names.lookup("healthy.example", 443, "one").result(10) == ("192.0.2.1",)


def test_a_lookup_of_two_owners_can_use_the_share_of_either(names: NameResolver, hanging: HangingNames) -> None:
    hang(names, 100, owner="one", domain="d{}.test")
    assert not names.lookup("healthy.example", 443, "one").done()

    assert names.lookup("healthy.example", 443, "two").result(10) == ("192.0.2.1",)


def test_queued_lookups_start_as_threads_become_free(names: NameResolver, hanging: HangingNames) -> None:
    waiting = hang(names, 300, domain="d{}.test")
    hanging.released.set()

    assert all(answer.result(10) for answer in waiting)
    assert hanging.count() == 300


def test_a_request_that_joins_an_old_queued_lookup_is_resolved(
    names: NameResolver, hanging: HangingNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 0.3)
    hang(names, 100, domain="slow.test")
    queued = names.lookup("late.slow.test", 443)
    time.sleep(0.5)

    joined = names.lookup("late.slow.test", 443, until=time.monotonic() + 10)
    hanging.released.set()

    assert joined is queued
    assert joined.result(10) == ("192.0.2.1",)


def test_the_time_of_a_lookup_begins_with_its_thread(
    names: NameResolver, hanging: HangingNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 0.3)
    hang(names, 100, domain="slow.test")
    asked_at = time.monotonic()
    queued = names.lookup("late.slow.test", 443, until=asked_at + 10)
    time.sleep(0.1)
    released_at = time.monotonic()
    hanging.released.set()
    queued.result(10)

    assert queued.deadline(asked_at, asked_at + 10) >= released_at + 0.3


def test_a_request_that_joins_a_running_lookup_has_its_own_time(
    names: NameResolver, hanging: HangingNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 9.0)
    (running,) = hang(names, 1)
    wait_until(lambda: hanging.count() == 1)
    time.sleep(0.1)

    joined, asked_at = names.lookup("hang0.0.example", 443), time.monotonic()

    assert joined is running
    assert joined.deadline(asked_at, asked_at + 10) == asked_at + 9.0


def test_a_lookup_without_remaining_requests_is_skipped(names: NameResolver, hanging: HangingNames) -> None:
    hang(names, 100, domain="slow.test")
    forgotten = names.lookup("late.slow.test", 443, until=time.monotonic() + 0.01)
    time.sleep(0.05)
    hanging.released.set()

    assert isinstance(forgotten.exception(10), TimeoutError)
    assert "late.slow.test" not in hanging.asked


def test_the_wait_for_a_thread_does_not_count_as_slow_resolution(
    names: NameResolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(names, 100, domain="slow.test")
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 0.1)  # now, because nobody waits for a name that begins later
    queued = names.lookup("late.slow.test", 443)
    asked_at = time.monotonic()
    time.sleep(0.3)

    assert not queued.done()
    assert queued.deadline(asked_at, asked_at + 30) == asked_at + 30
    assert queued.timed_out(30.0) == errors.name_not_looked_up("late.slow.test")


def test_a_name_counts_as_fast_again_after_several_fast_answers() -> None:
    paces = NamePaces()
    paces.note("a.example", 10.0, is_hang=True)
    noted = []

    for _ in range(ANSWERS_TO_FORGIVE):
        noted.append(paces.of("a.example"))
        paces.note("a.example", 0.01, is_hang=False)

    assert set(noted) == {Pace.SLOW}
    assert paces.of("a.example") is Pace.FAST


def test_names_with_a_recent_hang_share_few_threads(hanging: HangingNames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 0.2)
    names = NameResolver(hanging)
    first = hang(names, 20, domain="d{}.test")
    time.sleep(0.4)
    hanging.released.set()
    assert all(answer.result(10) for answer in first)
    hanging.released.clear()
    hanging.asked.clear()

    hang(names, 20, domain="d{}.test")
    wait_until(lambda: hanging.count() >= THREADS[Pace.SLOW] / 2)
    time.sleep(0.2)

    assert hanging.count() == THREADS[Pace.SLOW] / 2


def test_an_error_is_returned_to_all_requests_and_the_next_lookup_succeeds() -> None:
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


def test_a_pool_never_exceeds_its_limit_of_threads() -> None:
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
    """Allow the start of ``left`` threads, as a system at its limit does."""

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


def test_a_thread_that_cannot_start_does_not_count_towards_the_limit(scarce: ScarceThreads) -> None:
    pool, done, forgotten = DaemonThreads("pool", 1), threading.Event(), threading.Event()

    with pytest.raises(OSError, match="new thread"):
        pool.submit(forgotten.set)
    scarce.left = 1
    pool.submit(done.set)

    assert done.wait(10)
    assert not forgotten.is_set()
    pool.close()


def test_work_is_queued_for_running_threads_if_no_more_can_start(scarce: ScarceThreads) -> None:
    pool, go, done = DaemonThreads("pool", 2), threading.Event(), threading.Event()
    scarce.left = 1
    pool.submit(lambda: bool(go.wait(10)) and None)  # type: ignore[arg-type]

    pool.submit(done.set)
    go.set()

    assert done.wait(10)
    pool.close()


def test_a_lookup_whose_thread_cannot_start_fails_at_once_and_can_be_repeated(scarce: ScarceThreads) -> None:
    names = NameResolver(lambda _host, _port: ["192.0.2.1"])

    with pytest.raises(OSError, match="new thread"):
        names.lookup("a.example", 443).result(10)
    scarce.left = 1

    assert names.lookup("a.example", 443).result(10) == ("192.0.2.1",)
