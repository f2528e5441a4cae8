"""Base of the commands: results on stdout, everything else on stderr, and what several commands share.

These are arguments, a progress bar, the output of a delivery's attempts until it is finished, and the end by a signal.

Untrusted text is made safe for a terminal.
"""

from __future__ import annotations

import getpass
import json
import os
import signal
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.core.management.color import no_style
from django.db import DatabaseError, InterfaceError
from django.utils import timezone, translation

from ..conf import LANGUAGE, settings
from ..exceptions import WebhooksError
from ..models import Delivery, DeliveryAttempt, Webhook
from ..models.hold import HoldReason, holds_of
from ..operations.actors import Operator
from ..owners import owner_model, owners
from ..protocol.json_data import format_time

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

OWNER_HELP = "The owner's name, as shown in the console, or its primary key."

MAX_NAMED = 5
MAX_OWNERS_LISTED = 100

OUTPUT_FORMATS = ("text", "json")

DATA_HELP = "The event's data: a JSON object, @FILE to read it from a file, or - to read it from standard input."

WIDTH = 30


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


def get_webhook(webhook_id: str) -> Webhook:
    """Return the webhook with this id, of any owner. Raise CommandError if it does not exist or is deleted."""
    webhook = Webhook.objects.existing().filter(pk=webhook_id).first()
    if webhook is None:
        raise CommandError(f"Unknown webhook {webhook_id!r}. An id looks like wh_019c138f9ac012d1c9a64a2e0f3b7d55.")
    return webhook


def described(webhook: Webhook) -> dict[str, Any]:
    """Return the facts of a webhook for scripts, without its secret."""
    return {
        "id": webhook.pk,
        "owner": None if webhook.owner_id is None else owners().label(webhook.owner),
        "url": webhook.url,
        "events": webhook.event_types,
        "description": webhook.description,
        "status": webhook.status,
        "status_reason": webhook.status_reason,
        "created": format_time(webhook.created_at),
    }


def printable(text: str, *, keep_newlines: bool = False) -> str:
    """Return the text with control, formatting and surrogate characters escaped, as in ``\\x1b``."""
    return "".join(
        character
        if unicodedata.category(character) not in _UNSAFE_CATEGORIES or (keep_newlines and character == "\n")
        else character.encode("unicode_escape").decode()
        for character in text
    )


def is_colour_refused() -> bool:
    """Return True if the environment disables colour (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def find_owner(text: str) -> Any | None:
    """Return the owner with this name or primary key. Raise CommandError if the name is ambiguous."""
    try:
        found = list(owners().found(text)[: MAX_NAMED + 1])
    except UnicodeEncodeError:  # an argument that is not in UTF-8
        return None
    if len(found) > 1:
        keys = ", ".join(str(owner.pk) for owner in found[:MAX_NAMED])
        raise CommandError(f"Several owners are named {text!r}. Use the primary key: {keys}.")
    return found[0] if found else None


def get_owner(text: str, hint: str = "") -> Any:
    """Return the owner with this name or primary key. Raise CommandError, with the hint, if there is none."""
    owner = find_owner(text)
    if owner is None:
        field, kind = owners().name_field, owner_model()._meta.verbose_name
        lines = [f"No {kind} has the {field} or the primary key {text!r}. {hint}".rstrip(), _how_to_list(field)]
        raise CommandError(" ".join(lines))
    return owner


def _how_to_list(field: str) -> str:
    rows = f"owner_rows().values_list('pk', '{field}')[:{MAX_OWNERS_LISTED}]"
    code = f"from webhooks_app.owners import owner_rows; print(*{rows}, sep='\\n')"
    return f'To see the primary key and the {field} of each: manage.py shell -c "{code}"'


def read_json(argument: str, *, noun: str, hint: str = "") -> tuple[Any, str]:
    """Return the value of ``JSON``, ``@FILE`` or ``-``, and a noun phrase for its source. Raise CommandError."""
    text, source = _text_of(argument, noun)
    try:
        return json.loads(text), source
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{source} is not JSON: {error}.{f' {hint}' if hint else ''}") from None


def _text_of(argument: str, noun: str) -> tuple[str, str]:
    if argument == "-":
        return sys.stdin.read(), "Standard input"
    if not argument.startswith("@"):
        return argument, noun
    path = Path(argument[1:])
    try:
        return path.read_text(encoding="utf-8"), f"The file {path}"
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"The file {path} cannot be read: {error}") from None


def read_event_data(argument: str) -> dict[str, Any]:
    """Return the JSON object of a ``--data`` argument. Raise CommandError."""
    data, source = read_json(argument, noun="The data", hint="Quote it for your shell: --data '{\"key\": 1}'")
    if not isinstance(data, dict):
        raise CommandError(f'{source} is not a JSON object. The data of an event must be one, such as {{"key": 1}}.')
    return data


class ProgressBar:
    """A progress bar on a terminal; prints nothing elsewhere."""

    def __init__(self, stream: OutputWrapper, *, total: int, unit: str) -> None:
        self._stream = stream
        self._total = total
        self._unit = unit
        self._done = 0
        self._shown = ""

    def advance(self, count: int = 1) -> None:
        self._done += count
        # The total may have grown since it was counted.
        share = min(1.0, self._done / max(1, self._total))
        filled = int(share * WIDTH)
        self._show(f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%} of {self._total:,} {self._unit}")

    def end(self) -> None:
        if self._shown:
            self._stream.write("", str)

    def _show(self, text: str) -> None:
        if text == self._shown or not self._stream.isatty():
            return
        self._stream.write(f"\r{text}", str, ending="")
        self._stream.flush()
        self._shown = text


LOOK_EVERY_SECONDS = 0.1
WORKER_MISSED_AFTER_SECONDS = 10.0
SPARE_SECONDS = 30.0

NO_WORKER = "No worker has claimed it yet. Start one: `celery -A your_project worker`, or `manage.py deliver_webhooks`."


def follow(delivery: Delivery, write: Callable[[str], None], *, timeout_seconds: float | None = None) -> Delivery:
    """Print each attempt as it is logged, and return the delivery once it is finished.

    Raise CommandError if it is not finished within the maximum duration of all its attempts.
    """
    ends_at = time.monotonic() + (timeout_seconds or _longest_seconds(delivery))
    warn_at = time.monotonic() + WORKER_MISSED_AFTER_SECONDS
    said = 0
    while True:
        delivery.refresh_from_db()
        for attempt in delivery.attempts.filter(number__gt=said).order_by("number"):
            write(_line(delivery, attempt))
            said = attempt.number
        if delivery.state != Delivery.State.PENDING:
            return delivery
        now = time.monotonic()
        if now > ends_at:
            raise CommandError(f"Delivery {delivery.id} is still pending. {_status(delivery)}")
        if now > warn_at and not delivery.attempt_count:
            write(_hold(delivery) or NO_WORKER)
            warn_at = ends_at
        time.sleep(LOOK_EVERY_SECONDS)


def _longest_seconds(delivery: Delivery) -> float:
    return float(delivery.max_attempts * settings.LEASE_SECONDS + delivery.policy.span.total_seconds() + SPARE_SECONDS)


def _status(delivery: Delivery) -> str:
    attempts = f"Its attempts so far: {delivery.attempt_count}." if delivery.attempt_count else ""
    return " ".join(filter(None, (attempts, _hold(delivery)))) or NO_WORKER


def _hold(delivery: Delivery) -> str:
    """Return the reason why the delivery is not sent now, or "" if it is due or finished."""
    (loaded,) = Delivery.objects.select_related("event", "webhook__lane", "queue_entry").filter(pk=delivery.pk)
    (hold,) = holds_of([loaded], now=timezone.now())
    return "" if hold is None or hold.reason == HoldReason.FINAL else f"It is held: {hold.reason.label}."


def _line(delivery: Delivery, attempt: DeliveryAttempt) -> str:
    took = "" if attempt.duration_ms is None else f" in {attempt.duration_ms / 1000:.3f} s"
    status = "" if attempt.response_status is None else f" (status {attempt.response_status})"
    reason = f": {attempt.message}" if attempt.message else ""
    return f"attempt {attempt.number} of {delivery.max_attempts}: {attempt.get_result_display()}{status}{took}{reason}"


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_by_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on the first SIGTERM or SIGINT. The next one raises KeyboardInterrupt.

    ``stop`` runs in a separate thread: a signal handler interrupts the main thread and must not wait for a lock that
    the main thread holds.
    """
    asked: SimpleQueue[bool] = SimpleQueue()

    def wait_for_signal() -> None:
        if asked.get():
            stop()

    def handle(signal_number: int, frame: FrameType | None) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.default_int_handler)
        asked.put(True)

    threading.Thread(target=wait_for_signal, name="webhooks_app.stop", daemon=True).start()
    with _signals_handled_by(handle):
        yield
    asked.put(False)


@contextmanager
def _signals_handled_by(handle: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread gets signals.
        return
    before = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
