"""Base of the commands: results on stdout, everything else on stderr."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.management.color import no_style
from django.db import DatabaseError, InterfaceError
from django.utils import translation

from ..exceptions import WebhooksError
from ..operations.actors import Operator
from .terminal import is_colour_refused, printable

LANGUAGE = "en"
"""The language of all output. As in Django's own commands, only parts of it are translatable."""


class WebhooksCommand(BaseCommand):
    """Base command for use in scripts: stdout contains only the result."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        with translation.override(LANGUAGE):
            return self._execute(*args, **options)

    def _execute(self, *args: Any, **options: Any) -> str | None:
        if is_colour_refused() and not options["force_color"]:
            options["no_color"] = True
        try:
            return super().execute(*args, **options)
        except WebhooksError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(_described(error)) from error
        except UnicodeEncodeError as error:
            raise CommandError("An argument contains bytes that are not UTF-8.") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"The input cannot be decoded: {error}.") from error
        except EOFError as error:
            raise CommandError("Standard input ended before the value was given.") from error
        except KeyboardInterrupt:
            raise CommandError("Stopped.", returncode=130) from None
        except (DatabaseError, InterfaceError) as error:
            raise CommandError(
                f"Database error: {printable(str(error).strip())}\n"
                "Check that the database runs and has its tables; `manage.py migrate` creates them."
            ) from error

    @property
    def actor(self) -> Operator:
        """The user of the command as an actor of operations."""
        return Operator(name=_user())

    def is_confirmed(self, question: str, *, yes: bool) -> bool:
        """Return True if the user confirms, or without a question if ``yes``, the option --yes, is True."""
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError(
                "Standard input is not a terminal. Add --yes to skip the question, or --dry-run to count only."
            )
        self.stderr.write(f"{question} [y/N] ", str, ending="")
        self.stderr.flush()
        try:
            return input().strip().lower() in ("y", "yes")
        except EOFError:
            self.note("")
            return False

    def result(self, text: str) -> None:
        """Print a line of the result."""
        self.stdout.write(text)
        self.stdout.flush()

    def note(self, text: str, *, role: str = "") -> None:
        """Print a message to stderr, in the colour of one of Django's style roles."""
        style = self.style if self.stderr.isatty() else no_style()
        self.stderr.write(printable(text, keep_newlines=True), getattr(style, role) if role else str)
        self.stderr.flush()


def _user() -> str:
    """Return the name of the operating system's user, or "" if it is unknown."""
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
