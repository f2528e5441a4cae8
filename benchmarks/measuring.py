"""The process that measures one variant with running servers: ``python -m benchmarks.measuring``."""

from __future__ import annotations

import argparse
import json
import sys

import django

django.setup()  # before the scenarios import models

from . import celery_app, rows  # noqa: E402
from .progress import Progress  # noqa: E402
from .rivals.packages import NotInstallableError  # noqa: E402
from .scenario import scenarios  # noqa: E402


def main(name: str, label: str, arguments: argparse.Namespace) -> int:
    """Run a variant and print the figures of each run as a list, in one line of JSON.

    The list is empty for a rival that cannot be installed.
    """
    celery_app.set_current()  # instead of the app of the tests, whose servers are imported
    scenario = scenarios()[name]
    variant = next(variant for variant in scenario.chosen_variants(arguments) if variant.label == label)
    rows.make_tables()
    runs = []
    try:
        with Progress(name) as progress:
            for number in range(1, arguments.runs + 1):
                progress.retitle(f"{name}, {label}, run {number} of {arguments.runs}")
                runs.append(scenario.measure(arguments, variant, progress))
    except NotInstallableError as error:
        print(f"{label} cannot be installed and is skipped: {error}", file=sys.stderr)
    print(json.dumps(runs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], argparse.Namespace(**json.loads(sys.argv[3]))))
