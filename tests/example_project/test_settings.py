"""Settings of the example project from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from example_project.environment import webhooks_settings

ROOT = Path(__file__).parents[2]
DAYS = {"file.deleted": 7, "ppt.exported": 400}


def _settings(tmp_path, expression, **environment):
    """Return the value of an expression in the settings, evaluated in a separate process."""
    code = f"import json; from example_project import settings as s; print(json.dumps({expression}, default=str))"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WEBHOOKS_", "CELERY_"))}
    environment = {**kept, "DATABASE_URL": "sqlite:///unused", "VAR_DIR": str(tmp_path), **environment}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        pytest.param("WEBHOOKS_ALLOW_HTTP", "false", False, id="no"),
        pytest.param("WEBHOOKS_ALLOW_HTTP", "1", True, id="yes"),
        pytest.param("WEBHOOKS_ALLOWED_NETWORKS", "", [], id="empty list"),
        pytest.param("WEBHOOKS_ALLOWED_NETWORKS", "10.0.0.0/8, ::1/128", ["10.0.0.0/8", "::1/128"], id="list"),
        pytest.param("WEBHOOKS_RETRY_POLICIES", "extended", ["extended"], id="list of one"),
        pytest.param("WEBHOOKS_RETENTION_DAYS_BY_TYPE", "file.deleted=7, ppt.exported = 400", DAYS, id="mapping"),
        pytest.param("WEBHOOKS_RETENTION_DAYS_BY_TYPE", "", {}, id="empty mapping"),
        pytest.param("WEBHOOKS_TIMEOUT_SECONDS", "2.5", 2.5, id="number"),
        pytest.param("WEBHOOKS_MAX_IN_FLIGHT", "7", 7, id="whole number"),
        pytest.param("WEBHOOKS_EGRESS_PROXY", "", "", id="empty text"),
        pytest.param("WEBHOOKS_API_RATE", "7/min", "7/min", id="text"),
    ],
)
def test_a_variable_becomes_a_setting_of_its_type(name, text, value):
    assert webhooks_settings({name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("WEBHOOKS_ALLOW_HTTP", "maybe", id="neither yes nor no"),
        pytest.param("WEBHOOKS_MAX_IN_FLIGHT", "", id="empty number"),
        pytest.param("WEBHOOKS_RETENTION_DAYS_BY_TYPE", "file.deleted", id="mapping to nothing"),
    ],
)
def test_an_invalid_value_is_named(name, text):
    with pytest.raises(ImproperlyConfigured, match=name):
        webhooks_settings({name: text})


def test_other_variables_are_ignored():
    assert webhooks_settings({"WEBHOOKS_": "x", "WEBHOOKS_NO_SUCH_SETTING": "x", "PATH": "x"}) == {}


def test_development_allows_http_and_loopback_and_needs_no_server(tmp_path):
    names = "[s.DEBUG, s.WEBHOOKS_ALLOW_HTTP, s.WEBHOOKS_ALLOWED_NETWORKS, s.CELERY_BROKER_URL, s.BASE_URL]"

    found = _settings(tmp_path, names, PORT="8123")

    networks = ["127.0.0.0/8", "::1/128"]
    assert found == [True, True, networks, "filesystem://localhost", "http://127.0.0.1:8123"]
    assert sorted(path.name for path in (tmp_path / "broker").iterdir()) == ["control", "messages", "taken"]


def test_the_environment_overrides_the_permissions(tmp_path):
    found = _settings(
        tmp_path,
        "[s.WEBHOOKS_ALLOW_HTTP, s.WEBHOOKS_ALLOWED_NETWORKS]",
        WEBHOOKS_ALLOW_HTTP="false",
        WEBHOOKS_ALLOWED_NETWORKS="",
    )

    assert found == [False, []]


def test_database_and_broker_are_chosen_by_url(tmp_path):
    found = _settings(
        tmp_path,
        "[s.DATABASES['default'], s.CELERY_BROKER_URL, s.CELERY_BROKER_TRANSPORT_OPTIONS]",
        DATABASE_URL="postgres://me:secret@db.example:5433/presentations",
        CELERY_BROKER_URL="redis://broker.example/3",
    )

    database, broker_url, options = found
    assert (database["ENGINE"], database["HOST"], database["PORT"]) == (
        "django.db.backends.postgresql",
        "db.example",
        5433,
    )
    assert broker_url == "redis://broker.example/3"
    assert options["socket_connect_timeout"] <= options["socket_timeout"] <= 2


def test_sqlite_lets_several_processes_write(tmp_path):
    options = _settings(tmp_path, "s.DATABASES['default']['OPTIONS']", DATABASE_URL="sqlite:////tmp/unused.sqlite3")

    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] >= 5
    assert "journal_mode=WAL" in options["init_command"]


def test_production_requires_a_secret_key(tmp_path):
    with pytest.raises(AssertionError, match="SECRET_KEY"):
        _settings(tmp_path, "s.SECRET_KEY", DEBUG="false")


def test_beat_sweeps_for_webhooks_and_for_the_service(tmp_path):
    tasks = _settings(tmp_path, "[entry['task'] for entry in s.CELERY_BEAT_SCHEDULE.values()]")

    assert {"webhooks_app.deliver_due", "example_project.resume_presentations"} <= set(tasks)
