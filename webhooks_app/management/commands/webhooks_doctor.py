"""``manage.py webhooks_doctor``"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...doctor import Finding, Level, examine, worst
from ..base import WebhooksCommand, printable

FAIL_LEVELS: Mapping[str, tuple[Level, ...]] = {"ERROR": (Level.ERROR,), "WARNING": (Level.WARNING, Level.ERROR)}
STATUS: Mapping[Level, int] = {Level.WARNING: 1, Level.ERROR: 2}
ROLES: Mapping[Level, str] = {Level.OK: "SUCCESS", Level.WARNING: "WARNING", Level.ERROR: "ERROR"}
WIDTH = 100


class Command(WebhooksCommand):
    help = (
        "Examine everything that delivery depends on: settings, transport, address guard, wake-ups, database, clocks, "
        "encryption keys, workers, overdue deliveries; with Celery, its broker and beat's schedule. "
        "Exit status: 0 without errors, 2 with errors, and with --fail-level WARNING 1 with warnings."
    )
    # The command runs the system checks itself. Run by Django, an error would stop it.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print the findings as JSON.")
        parser.add_argument(
            "--fail-level",
            choices=FAIL_LEVELS,
            default="ERROR",
            help="The lowest level of a finding that makes the command fail, as for `check`: %(choices)s. "
            "Default: %(default)s.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        findings = examine()
        if options["json"]:
            self.result(json.dumps([_as_json(finding) for finding in findings], indent=2))
        else:
            self._report(findings)
        if worst(findings) in FAIL_LEVELS[options["fail_level"]]:
            raise CommandError(_summary(findings), returncode=STATUS[worst(findings)])

    def _report(self, findings: Sequence[Finding]) -> None:
        names = max(len(finding.name) for finding in findings)
        for finding in findings:
            paint = getattr(self.style, ROLES[finding.level])
            head = f"{finding.level.value:8} {finding.name:{names}}  "
            lines = textwrap.wrap(printable(finding.found), WIDTH)
            lines += textwrap.wrap(f"→ {printable(finding.hint)}", WIDTH) if finding.hint else []
            self.result(paint(head) + f"\n{' ' * len(head)}".join(lines))


def _as_json(finding: Finding) -> dict[str, str]:
    return {**asdict(finding), "level": finding.level.value}


def _summary(findings: Sequence[Finding]) -> str:
    counts = {level: sum(finding.level is level for finding in findings) for level in (Level.ERROR, Level.WARNING)}
    return f"errors: {counts[Level.ERROR]}, warnings: {counts[Level.WARNING]}"
