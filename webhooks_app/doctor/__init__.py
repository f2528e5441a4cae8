"""Diagnosis of everything that delivery depends on, with a hint for each problem, in the current language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from django.utils.translation import gettext as _

from ..wake.base import uses_celery
from .delivery import examine_beat, examine_broker, examine_due, examine_jobs, examine_receivers, examine_workers
from .findings import Finding, Level, fail, worst
from .surroundings import (
    examine_clock,
    examine_database,
    examine_deployment,
    examine_guard,
    examine_keys,
    examine_settings,
    examine_transport,
    examine_wake,
)

__all__ = ["Finding", "Level", "examine", "worst"]

Examination = Callable[[str], Iterator[Finding]]

EXAMINATIONS: dict[str, Examination] = {
    "settings": examine_settings,
    "deployment": examine_deployment,
    "transport": examine_transport,
    "guard": examine_guard,
    "wake": examine_wake,
}
IN_DATABASE: dict[str, Examination] = {
    "clock": examine_clock,
    "keys": examine_keys,
    "workers": examine_workers,
    "jobs": examine_jobs,
    "due": examine_due,
    "receivers": examine_receivers,
}


def examine() -> list[Finding]:
    """Examine everything once. Return the findings in the order in which to fix them."""
    broker, beat = ({"broker": examine_broker}, {"beat": examine_beat}) if uses_celery() else ({}, {})
    findings = _findings(EXAMINATIONS | broker)
    findings += (database := _findings({"database": examine_database}))
    if worst(database) is Level.ERROR:
        return findings
    return findings + _findings(IN_DATABASE | beat)


def _findings(examinations: Mapping[str, Examination]) -> list[Finding]:
    return [finding for name, examination in examinations.items() for finding in _examined(name, examination)]


def _examined(name: str, examination: Examination) -> list[Finding]:
    try:
        return list(examination(name))
    except Exception as error:  # noqa: BLE001 - a broken part may raise anything, and the other examinations continue
        # Without the error's message: an invalid setting may be a secret.
        found = _("The examination failed (%(error)s).") % {"error": type(error).__name__}
        return [fail(name, found, _("Fix the other findings, then run this again."))]
