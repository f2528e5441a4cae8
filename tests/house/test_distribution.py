"""The content of the distribution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.support.once import made_once

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "webhooks_app"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    """The wheel, built from the sdist as for a release."""
    return ZipFile(next(made_once(tmp_path_factory, "dist", _build).glob("*.whl")))


def _build(directory: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", directory, ROOT]
    environment = {name: value for name, value in os.environ.items() if name != "WEBHOOKS_PROJECT_URL"}
    subprocess.run(command, check=True, capture_output=True, env=environment)


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


def test_the_tests_are_not_installed(wheel: ZipFile) -> None:
    assert {Path(name).parts[0] for name in wheel.namelist()} == {"webhooks_app", _dist_info(wheel)}


def test_the_metadata_describes_the_package(metadata: Message) -> None:
    from webhooks_app import __version__

    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Metadata-Version"] == "2.4"
    assert metadata.get_all("Provides-Extra") == ["all", "api-docs", "beat", "metrics", "redis", "tracing"]


LINKS = re.compile(r"!?\[[^\]]+\]\(([^)]+)\)")


def test_without_a_published_repository_the_description_has_no_links(metadata: Message) -> None:
    assert LINKS.findall(metadata.get_payload()) == []
    assert metadata.get_all("Project-URL") is None
    assert "pip install" in metadata.get_payload()


def test_with_a_published_repository_the_links_lead_there(tmp_path: Path) -> None:
    metadata = built_with("https://forge.example/shop/webhooks/", tmp_path)

    links = LINKS.findall(metadata.get_payload())
    assert "https://forge.example/shop/webhooks/blob/HEAD/docs/settings.md" in links
    assert "https://forge.example/shop/webhooks/raw/HEAD/docs/pictures/webhook.png" in links
    assert {link for link in links if not link.startswith("https://forge.example/shop/webhooks/")} == set()
    assert "Source, https://forge.example/shop/webhooks" in metadata.get_all("Project-URL")


@pytest.mark.parametrize("url", ["forge.example/shop", "http://forge.example/shop/webhooks", "https://forge.example"])
def test_an_address_that_is_no_repository_stops_the_build(url: str, tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        built_with(url, tmp_path)

    assert "must be the address of a repository" in raised.value.stderr


def test_no_file_has_an_invented_address() -> None:
    pattern = r"https?://[a-z0-9.-]*readthedocs|github\.com/webhooks[-]app"
    found = subprocess.run(["git", "grep", "-InE", pattern], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (found.stdout, found.returncode) == ("", 1)


def built_with(url: str, directory: Path) -> Message:
    """Return the metadata of a wheel built with this address of the repository."""
    code = "import sys, build_backend; build_backend.prepare_metadata_for_build_wheel(sys.argv[1])"
    environment = {**os.environ, "WEBHOOKS_PROJECT_URL": url}
    command = [sys.executable, "-c", code, directory]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    (written,) = directory.glob("*.dist-info/METADATA")
    return Parser().parsestr(written.read_text())


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
    *("psycopg", "psycopg2", "pymysql", "MySQLdb", "redis", "prometheus_client", "django_celery_beat"),
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
