"""Build what a release uploads, and prove that it works: ``make release``. Nothing is uploaded.

Both packages are built twice, from two copies of the commit, and the files must be equal. Then they are installed into
empty environments, with the oldest and the newest Python and Django of this machine. ``dist`` has the files, their
hashes and the bill of materials (CycloneDX) of each package.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
PACKAGES = {"django_webhooks_app": ".", "webhooks_receiver": "webhooks-receiver"}
"""The folder of each package, by the beginning of its files' names."""

DJANGO_VERSIONS = ("django==5.2.*", "django")
OLDEST = {"django_webhooks_app": (3, 11), "webhooks_receiver": (3, 9)}
NEWEST = (3, 14)

APP_WORKS = """
import django
from django.conf import settings
from django.core.management import call_command
apps = ("auth", "contenttypes")
settings.configure(
    SECRET_KEY="x" * 50,
    INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "rest_framework", "webhooks_app"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}},
    ROOT_URLCONF="webhooks_app.api.urls",
)
django.setup()
call_command("migrate", verbosity=0)
call_command("deliver_webhooks", "--until-idle")
"""
RECEIVER_WORKS = """
from webhooks_receiver import receive, signed_request
body, headers = signed_request("invoice.paid", {"number": 7}, "a secret")
assert receive(body, headers, "a secret").event.data == {"number": 7}
"""


def main() -> None:
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        sys.exit("Commit your changes first: a release is built from the commit.")
    with tempfile.TemporaryDirectory() as folder:
        first, second = (built(Path(folder) / name) for name in ("first", "second"))
        hashes = hashes_of(first)
        if hashes != hashes_of(second):
            sys.exit(f"Two builds differ: {sorted(set(hashes.items()) ^ set(hashes_of(second).items()))}")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(first, DIST)
    print("Two builds are equal.", *(f"  {digest}  {name}" for name, digest in hashes.items()), sep="\n")
    print(run(sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir())))
    for package in PACKAGES:
        for python, django in environments(package):
            try_package(package, python, django)
    lines = [f"{digest}  {name}\n" for name, digest in hashes_of(DIST).items()]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    print("dist is ready for the upload. The steps that remain are in CONTRIBUTING.md.")


def built(folder: Path) -> Path:
    """Return a folder with the sdists and wheels of the commit, built from a copy of it."""
    source, dist = folder / "source", folder / "dist"
    source.mkdir(parents=True)
    run("git", "archive", "--output", folder / "source.tar", "HEAD")
    run("tar", "--extract", "--file", folder / "source.tar", "--directory", source)
    built_at = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()}
    for package in PACKAGES.values():
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source / package)
        run(*build, variables=built_at)
    return dist


def hashes_of(folder: Path) -> Mapping[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def environments(package: str) -> Sequence[tuple[str, str]]:
    """Return the oldest and the newest Python of this machine that a package supports, each with its Django."""
    found = pythons(OLDEST[package])
    ends = found[:1] + found[-1:]
    return list(zip(ends, DJANGO_VERSIONS, strict=True))


def pythons(oldest: tuple[int, int]) -> list[str]:
    """Return the interpreters of this machine, one of each version, oldest first."""
    versions = Path.home() / ".pyenv" / "versions"
    names = [f"python3.{minor}" for minor in range(oldest[1], NEWEST[1] + 1)]
    candidates = [[shutil.which(name), *versions.glob(f"{name[6:]}.*/bin/{name}")] for name in names]
    return [str(working[0]) for each in candidates if (working := [path for path in each if path and works(path)])]


def works(python: str | Path) -> bool:
    command = [python, "-c", "import ensurepip, sqlite3, ssl"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - found here


def try_package(package: str, python: str, django: str) -> None:
    """Install a package into an empty environment and use it. Write its bill of materials, of the newest one."""
    (wheel,) = DIST.glob(f"{package}-*.whl")
    is_app = package == "django_webhooks_app"
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        inside = Path(folder) / "bin" / "python"
        run(inside, "-m", "pip", "install", "--quiet", wheel, *([django] if is_app else []))
        run(inside, "-W", "error", "-c", APP_WORKS if is_app else RECEIVER_WORKS, directory=Path(folder))
        installed = "with Django " + run(inside, "-m", "django", "--version").strip() if is_app else "alone"
        print(f"{package} works in an empty environment with {Path(python).name}, {installed}.")
        run(inside, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools")
        bill = DIST / f"{wheel.stem.rpartition('-py3')[0]}.cdx.json"
        project = ROOT / PACKAGES[package] / "pyproject.toml"
        options = ("--output-reproducible", "--mc-type", "library", "--pyproject", project, "--output-file", bill)
        run(sys.executable, "-m", "cyclonedx_py", "environment", *options, inside)


def run(*command: str | Path, directory: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """Return the output of a command. Exit with its errors if it fails."""
    done = subprocess.run(  # noqa: S603 - our own commands
        list(map(str, command)),
        cwd=directory,
        env={**os.environ, **(variables or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} … failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
