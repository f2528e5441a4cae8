"""The host's own process. It emits events in transactions that commit or roll back, and reports the results.

It reads one command per line from stdin, for example ``{"count": 10, "ending": "commit", "pause_seconds": 0}``, and
answers each with a line.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from functools import partial
from typing import Any

import django

ERRORS = itertools.cycle(("No outline", "Too long"))
"""A filter can let every other event through."""

MIXED = ("commit", "commit", "rollback", "commit", "savepoint")


def emit_once(ending: str, owner: Any, key: str | None) -> tuple[list[str], list[str]]:
    """Emit in a transaction with this ending. Return the committed ids and those rolled back."""
    if ending == "commit":
        return [_emit(owner, key)], []
    if ending == "rollback":
        return [], [_undo(owner, key)]
    from django.db import OperationalError, transaction

    committed: list[str] = []
    with transaction.atomic():
        kept = _emit(owner, key)
        transaction.on_commit(partial(committed.append, kept))
        undone = _undo(owner, key)
    if not committed:
        # Django hides an error of the rollback to the savepoint, and rolls back everything instead of committing.
        raise OperationalError("The transaction was rolled back instead of being committed.")
    return committed, [undone]


def _emit(owner: Any, key: str | None) -> str:
    from webhooks_app import emit

    return emit("ppt.generation.failed", {"error": next(ERRORS)}, owner=owner, ordering_key=key).id


def _undo(owner: Any, key: str | None) -> str:
    """Emit in a transaction, or in a savepoint of the current one, and roll it back."""
    from django.db import transaction

    with transaction.atomic():
        undone = _emit(owner, key)
        transaction.set_rollback(True)
    return undone


def emit_many(count: int, ending: str, pause_seconds: float, *, until_committed: bool, keys: int = 0) -> dict[str, Any]:
    """Emit ``count`` times. Errors are reported, and retried if every event must be committed.

    With ``keys``, the events have that number of ordering keys in turn.
    """
    from django.contrib.auth import get_user_model
    from django.db import Error, connection

    report: dict[str, Any] = {"committed": [], "rolled_back": [], "errors": [], "slowest_seconds": 0.0, "keys": {}}
    owner = get_user_model()(pk=1)
    owner._state.adding = False
    while count:
        started = time.monotonic()
        try:
            key = f"key-{count % keys}" if keys else None
            committed, rolled_back = emit_once(MIXED[count % len(MIXED)] if ending == "mixed" else ending, owner, key)
        except Error as error:
            report["errors"].append(f"{type(error).__name__}: {error}")
            connection.close()
            count -= not until_committed
            time.sleep(max(0.1, pause_seconds))
            continue
        count -= 1
        report["committed"] += committed
        report["keys"].update(dict.fromkeys(committed, key))
        report["rolled_back"] += rolled_back
        report["slowest_seconds"] = max(report["slowest_seconds"], time.monotonic() - started)
        time.sleep(pause_seconds)
    return report


def main() -> None:
    django.setup()
    import tests.support.celery  # noqa: F401

    _say("ready")
    for line in sys.stdin:
        _say(json.dumps(emit_many(**json.loads(line))))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
