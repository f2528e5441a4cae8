"""Acknowledging, ignoring and reopening problems."""

from __future__ import annotations

from collections.abc import Callable

from ..models import Problem
from .actors import BaseActor, changing
from .rights import HANDLE_PROBLEM

__all__ = ["acknowledge", "ignore", "reopen"]


def acknowledge(problem: Problem, *, actor: BaseActor) -> None:
    """Mark a problem as known until it is resolved.

    Raises WebhookStateError for a resolved problem, and AlreadyInStateError for an acknowledged one.
    """
    _decide(problem, actor, problem.acknowledge)


def ignore(problem: Problem, *, actor: BaseActor) -> None:
    """Mark a problem as unimportant: further failures do not open it again.

    Raises AlreadyInStateError for an ignored problem.
    """
    _decide(problem, actor, problem.ignore)


def reopen(problem: Problem, *, actor: BaseActor) -> None:
    """Undo an acknowledgement, or stop ignoring a problem.

    Raises WebhookStateError for a resolved problem, and AlreadyInStateError for an open one.
    """
    _decide(problem, actor, problem.reopen)


def _decide(problem: Problem, actor: BaseActor, verb: Callable[[], None]) -> None:
    with changing(HANDLE_PROBLEM, problem, actor):
        verb()
