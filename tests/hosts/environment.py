"""The environment of the hosts: the built wheel, and the packages of the environment that runs the tests.

There is one such environment for each version of Django (``make test`` and ``make test-newer``).
"""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A virtual environment with the wheel of ``webhooks_app``."""

    directory: Path

    @property
    def binaries(self) -> Path:
        return self.directory / "bin"

    @property
    def python(self) -> Path:
        return self.binaries / "python"

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.directory / "lib" / version / "site-packages"


def create(directory: Path) -> Environment:
    """Build the wheel, and install only it into a new environment. Other packages are those of this interpreter."""
    environment = Environment(directory=directory / "environment")
    venv.create(environment.directory, symlinks=True)
    _pip(environment, _build_wheel(directory / "dist"))
    # A line in a .pth file adds a directory without its own .pth files, which excludes an editable webhooks_app.
    (environment.packages / "inherited.pth").write_text("\n".join(_inherited()))
    return environment


def _build_wheel(directory: Path) -> Path:
    _run("build", "--wheel", "--no-isolation", "--outdir", directory, ROOT)
    return next(directory.glob("*.whl"))


def _pip(environment: Environment, wheel: Path) -> None:
    # --target does not affect other environments. An ordinary installation would remove an editable one.
    _run("pip", "install", "--quiet", "--no-deps", "--no-index", "--target", environment.packages, wheel)


def _inherited() -> list[str]:
    """Return the directories of the installed packages. A Django on PYTHONPATH comes first."""
    return [path for path in sys.path if any(Path(path).glob("*.dist-info"))]


def _run(module: str, *arguments: str | Path) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
