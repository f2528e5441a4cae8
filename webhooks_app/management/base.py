"""What the commands share: results alone on stdout, notes on stderr, and errors that say what to do."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style
from django.db import DatabaseError, InterfaceError

from ..exceptions import WebhooksError
from ..operations.actors import Operator
from .terminal import is_colour_refused, printable


class WebhooksCommand(BaseCommand):
    """A command that a script can use: stdout carries its result and nothing else."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        if is_colour_refused() and not options["force_color"]:
            options["no_color"] = True
        try:
            return super().execute(*args, **options)
        except WebhooksError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(_described(error)) from error
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(
                f"The database refused: {printable(str(error).strip())}\n"
                "Is it running, and are its tables there? `manage.py migrate` makes them."
            ) from error

    @property
    def actor(self) -> Operator:
        """The person who runs the command, as operations take it."""
        return Operator(name=_user())

    def is_confirmed(self, question: str, *, yes: bool) -> bool:
        """Return True if the person at the terminal agrees; ``yes`` is the option --yes, which answers in advance."""
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError("There is nobody to ask. --yes goes on without a question, --dry-run only counts.")
        self.stderr.write(f"{question} [y/N] ", str, ending="")
        self.stderr.flush()
        return input().strip().lower() in ("y", "yes")

    def result(self, text: str) -> None:
        """Print a line that a script may read."""
        self.stdout.write(text)
        self.stdout.flush()

    def note(self, text: str, *, role: str = "") -> None:
        """Tell the person at the terminal something, in the colour of one of Django's style roles."""
        style = self.style if self.stderr.isatty() else no_style()
        self.stderr.write(printable(text, keep_newlines=True), getattr(style, role) if role else str)
        self.stderr.flush()


def _user() -> str:
    """Return who runs this, as the operating system knows them; "" where it knows no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _described(error: ValidationError) -> str:
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    return "\n".join(
        f"{field}: {' '.join(messages)}" if field != "__all__" else " ".join(messages)
        for field, messages in error.message_dict.items()
    )
