"""Rate limits under simultaneous requests, for each cache that processes can share."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection

from webhooks_app.operations import rate_limits
from webhooks_app.operations.rate_limits import COUNT_BITS, Limit

ALLOWED, ASKED = 5, 24
LIMIT = Limit(name="requests", subject="key_1", rate=f"{ALLOWED}/min")

PROCESS = """
import sys
from django.conf import settings
settings.configure(CACHES={{"default": {cache!r}}}, DATABASES={{"default": {database!r}}}, USE_TZ=True, INSTALLED_APPS=[
    "django.contrib.auth", "django.contrib.contenttypes", "webhooks_app"])
import django
django.setup()
from webhooks_app.operations import rate_limits
from webhooks_app.operations.rate_limits import Limit
limit = Limit(name={limit.name!r}, subject={limit.subject!r}, rate={limit.rate!r})
Limit(name="requests", subject="up", rate="9/min").take()
print("ready", flush=True)
sys.stdin.readline()
print(sum(not limit.take() for _ in range({times})))
"""


@pytest.fixture
def use(settings):
    """Make a cache the default one."""

    def use(backend, location):
        settings.CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{backend}", "LOCATION": location}}
        cache.clear()

    return use


def let_through_by_threads():
    barrier = Barrier(ASKED)

    def take(_):
        barrier.wait()
        try:
            return not LIMIT.take()
        finally:
            connection.close()

    with ThreadPoolExecutor(ASKED) as threads:
        return sum(threads.map(take, range(ASKED)))


def let_through_by_processes(settings, processes=3):
    """Send simultaneous requests in several processes, each as many as the limit allows."""
    database = {name: value for name, value in connection.settings_dict.items() if name != "TEST"}
    script = PROCESS.format(cache=settings.CACHES["default"], database=database, limit=LIMIT, times=ALLOWED)
    # The settings of the tests may replace mysqlclient by PyMySQL.
    script = f"import tests.settings\n{script}"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": ""},
        )
        for _ in range(processes)
    ]
    try:
        assert [process.stdout.readline() for process in running] == ["ready\n"] * processes
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        return sum(int(process.communicate(timeout=60)[0]) for process in running)
    finally:
        for process in running:
            process.kill()
            process.communicate()


def test_threads_share_a_limit(use):
    use("locmem.LocMemCache", "counting")

    assert let_through_by_threads() == ALLOWED
    assert 1 <= LIMIT.take() <= 60


def test_threads_share_a_limit_in_redis(use, redis_url):
    use("redis.RedisCache", redis_url)

    assert let_through_by_threads() == ALLOWED


def test_processes_share_a_limit_in_redis(use, redis_url, settings):
    use("redis.RedisCache", redis_url)

    assert let_through_by_processes(settings) == ALLOWED


@pytest.fixture
def in_database(settings, transactional_db):
    backend = "django.core.cache.backends.db.DatabaseCache"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": "webhooks_test_cache"}}
    call_command("createcachetable", verbosity=0)
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE webhooks_test_cache")


def test_threads_share_a_limit_in_the_database_cache(in_database, monkeypatch):
    monkeypatch.setattr(rate_limits, "TURN_SECONDS", 60)  # a loaded machine takes long for 24 threads

    assert let_through_by_threads() == ALLOWED


def test_processes_share_a_limit_in_the_database_cache(in_database, settings):
    assert let_through_by_processes(settings) == ALLOWED


def test_the_file_cache_counts(use, tmp_path):
    use("filebased.FileBasedCache", str(tmp_path))

    waits = [LIMIT.take() for _ in range(ALLOWED + 2)]

    assert waits[:ALLOWED] == [0.0] * ALLOWED
    assert all(1 <= wait <= 60 for wait in waits[ALLOWED:])


def test_an_expired_window_left_in_the_cache_is_restarted(use):
    use("locmem.LocMemCache", "counting")
    cache.set(LIMIT._key, 7, timeout=None)  # as Redis leaves it if a window ends during an increment

    assert [LIMIT.take() for _ in range(ALLOWED)] == [0.0] * ALLOWED
    assert cache.get(LIMIT._key) >> COUNT_BITS > 0


def test_an_unused_turn_expires(use, tmp_path):
    use("filebased.FileBasedCache", str(tmp_path))
    LIMIT.take()
    cache.set(f"{LIMIT._key}.{cache.get(LIMIT._key)}", True, timeout=1)  # a process ended between the two steps

    assert LIMIT.take() == 0.0


def test_a_request_without_a_turn_is_refused(use, tmp_path):
    use("filebased.FileBasedCache", str(tmp_path))
    LIMIT.take()
    cache.set(f"{LIMIT._key}.{cache.get(LIMIT._key)}", True, timeout=60)

    assert LIMIT.take() == 1.0
