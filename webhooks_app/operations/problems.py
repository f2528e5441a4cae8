"""Acknowledging, ignoring and reopening problems."""

from __future__ import annotations

from ..models import Problem
from .actions import ACKNOWLEDGE, IGNORE, REOPEN
from .actors import BaseActor

__all__ = ["acknowledge", "ignore", "reopen"]


def acknowledge(problem: Problem, *, actor: BaseActor) -> None:
    """Mark a problem as known until it is resolved.

    Raise WebhookStateError for a resolved problem, and AlreadyInStateError for an acknowledged one.
    """
    with ACKNOWLEDGE.on(problem, actor):
        problem.acknowledge()


def ignore(problem: Problem, *, actor: BaseActor) -> None:
    """Mark a problem as unimportant: further failures do not open it again.

    Raise AlreadyInStateError for an ignored problem.
    """
    with IGNORE.on(problem, actor):
        problem.ignore()


def reopen(problem: Problem, *, actor: BaseActor) -> None:
    """Undo an acknowledgement, or stop ignoring a problem.

    Raise WebhookStateError for a resolved problem, and AlreadyInStateError for an open one.
    """
    with REOPEN.on(problem, actor):
        problem.reopen()
