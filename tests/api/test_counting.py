"""Rate limits under many requests in the same moment, in each of the caches that processes share."""

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

pytestmark = pytest.mark.only_on("sqlite", "postgresql", "mariadb")

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
    """Let processes ask at the same time, each as often as the limit allows."""
    database = {name: value for name, value in connection.settings_dict.items() if name != "TEST"}
    script = PROCESS.format(cache=settings.CACHES["default"], database=database, limit=LIMIT, times=ALLOWED)
    # Where PyMySQL stands in for mysqlclient, the tests' settings say so.
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


def test_threads_together_get_what_one_would(use):
    use("locmem.LocMemCache", "counting")

    assert let_through_by_threads() == ALLOWED
    assert 1 <= LIMIT.take() <= 60


def test_threads_of_a_redis_get_what_one_would(use, redis_url):
    use("redis.RedisCache", redis_url)

    assert let_through_by_threads() == ALLOWED


def test_processes_of_a_redis_get_what_one_would(use, redis_url, settings):
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


def test_threads_of_a_cache_in_the_database_get_what_one_would(in_database, monkeypatch):
    monkeypatch.setattr(rate_limits, "TURN_SECONDS", 60)  # a loaded machine takes long for 24 threads

    assert let_through_by_threads() == ALLOWED


def test_processes_of_a_cache_in_the_database_get_what_one_would(in_database, settings):
    assert let_through_by_processes(settings) == ALLOWED


def test_a_cache_in_files_counts(use, tmp_path):
    use("filebased.FileBasedCache", str(tmp_path))

    waits = [LIMIT.take() for _ in range(ALLOWED + 2)]

    assert waits[:ALLOWED] == [0.0] * ALLOWED
    assert all(1 <= wait <= 60 for wait in waits[ALLOWED:])


def test_a_window_that_the_cache_should_have_dropped_is_begun_anew(use):
    use("locmem.LocMemCache", "counting")
    cache.set(LIMIT._key, 7, timeout=None)  # What Redis leaves if a window is over in the midst of an increment.

    assert [LIMIT.take() for _ in range(ALLOWED)] == [0.0] * ALLOWED
    assert cache.get(LIMIT._key) >> COUNT_BITS > 0


def test_a_turn_that_was_never_used_passes(use, tmp_path):
    use("filebased.FileBasedCache", str(tmp_path))
    LIMIT.take()
    cache.set(f"{LIMIT._key}.{cache.get(LIMIT._key)}", True, timeout=1)  # A process ended between its two steps.

    assert LIMIT.take() == 0.0


def test_who_never_gets_a_turn_is_refused(use, tmp_path):
    use("filebased.FileBasedCache", str(tmp_path))
    LIMIT.take()
    cache.set(f"{LIMIT._key}.{cache.get(LIMIT._key)}", True, timeout=60)

    assert LIMIT.take() == 1.0
