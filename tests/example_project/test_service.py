"""The service's tests need its own settings and thus a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SERVICE = Path(__file__).parent / "service"


def test_the_service_passes_its_tests_under_its_own_settings() -> None:
    command = [sys.executable, "-m", "pytest", "--ds=tests.example_project.service.settings", "-q", str(SERVICE)]

    done = subprocess.run(command, cwd=SERVICE.parents[2], capture_output=True, text=True, check=False, timeout=100)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
