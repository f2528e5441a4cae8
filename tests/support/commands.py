"""Management commands, run in this process."""

from __future__ import annotations

import io
from dataclasses import dataclass

from django.core.management import call_command


@dataclass(frozen=True, kw_only=True)
class Output:
    stdout: str
    stderr: str


def run_command(name: str, *arguments: str) -> Output:
    """Return the output of a command. Its exceptions are raised."""
    out, err = io.StringIO(), io.StringIO()
    call_command(name, *arguments, stdout=out, stderr=err)
    return Output(stdout=out.getvalue(), stderr=err.getvalue())
