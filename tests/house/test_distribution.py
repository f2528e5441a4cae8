"""The content of the distribution."""

from __future__ import annotations

import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "webhooks_app"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel, built from the sdist as for a release."""
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    return ZipFile(next(directory.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_contains_every_file_of_the_package(wheel: ZipFile) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    packed = {name for name in wheel.namelist() if name.startswith("webhooks_app/")}

    assert packed == files


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("webhooks_app/py.typed", id="the mark that it is typed"),
        pytest.param("webhooks_app/migrations/0*.py", id="migrations"),
        pytest.param("webhooks_app/templates/webhooks_app/**/*.html", id="templates"),
        pytest.param("webhooks_app/locale/*/LC_MESSAGES/django.mo", id="compiled translations"),
        pytest.param("webhooks_app/locale/*/LC_MESSAGES/django.po", id="translations"),
    ],
)
def test_the_wheel_contains_files_of_every_kind(wheel: ZipFile, pattern: str) -> None:
    expected = {path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)}

    assert expected
    assert expected <= set(wheel.namelist())


def test_the_tests_are_not_installed(wheel: ZipFile) -> None:
    assert {Path(name).parts[0] for name in wheel.namelist()} == {"webhooks_app", _dist_info(wheel)}


@pytest.mark.parametrize("extra", ["curl", "beat", "redis", "api-docs", "metrics", "all"])
def test_the_extra_exists(metadata: Message, extra: str) -> None:
    assert extra in metadata.get_all("Provides-Extra", [])


def test_the_metadata_describes_the_package(metadata: Message) -> None:
    from webhooks_app import __version__

    assert metadata["Name"] == "django-webhooks-app"
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Metadata-Version"] == "2.4"


def test_future_versions_of_django_are_permitted(metadata: Message) -> None:
    (django,) = [line for line in metadata.get_all("Requires-Dist", []) if Requirement(line).name == "django"]

    assert Requirement(django).specifier.contains("99.0")


ALONE = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[2:]))  # as if it were not installed
import django
from django.conf import settings
from django.core.management import call_command
settings.configure(
    SECRET_KEY="x" * 50,
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
        "django.contrib.messages", "django.contrib.sessions", "rest_framework", "webhooks_app"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    ROOT_URLCONF="webhooks_app.api.urls",
)
django.setup()
import webhooks_app.admin
call_command("migrate", verbosity=0)
call_command("deliver_webhooks", "--until-idle")
"""
OPTIONAL = (
    *("psycopg", "psycopg2", "pymysql", "MySQLdb", "pycurl", "redis", "prometheus_client", "django_celery_beat"),
    *("drf_spectacular", "responses", "pytest"),
)


def test_the_required_dependencies_suffice_for_a_delivery(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(tmp_path / "db.sqlite3"), *OPTIONAL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr


def test_pytest_finds_the_plugin(wheel: ZipFile) -> None:
    entry_points = wheel.read(f"{_dist_info(wheel)}/entry_points.txt").decode()

    assert "[pytest11]\nwebhooks_app=webhooks_app.pytest_plugin" in entry_points.replace(" ", "")


def _dist_info(wheel: ZipFile) -> str:
    return next(name for name in wheel.namelist() if ".dist-info/" in name).partition("/")[0]
