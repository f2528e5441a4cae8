"""``manage.py listen_webhooks``"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from queue import SimpleQueue
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.color import Style

from ...plurals import counted
from ...protocol.json_data import format_time
from ...receiver.local import Answers, ChallengeAnswer, LocalReceiver, Received
from ..base import WebhooksCommand, printable, stopped_by_signal

FAILURE = 500

MAX_BODY_CHARACTERS = 4000


class Command(WebhooksCommand):
    help = (
        "Receive webhooks on this machine and print them. Answers the challenge, verifies signatures, marks retries "
        "and duplicates, and fails on request. Needs no database. End it with Ctrl-C."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=int, default=8001, help="The port to listen on; 0 chooses a free one. Default: %(default)s."
        )
        parser.add_argument("--host", default="127.0.0.1", help="The address to listen on. Default: %(default)s.")
        parser.add_argument(
            "--secret",
            nargs="+",
            action="extend",
            default=[],
            metavar="SECRET",
            help="The webhook's secret. May be repeated during a rotation. Without it, signatures are not verified.",
        )
        parser.add_argument(
            "--answer",
            type=_statuses,
            default=(200,),
            metavar="STATUS[,STATUS…]",
            help="Statuses of the answers: the first for the first request of an event, the second for its retry, and "
            "so on; the last for all following requests. Default: 200.",
        )
        parser.add_argument(
            "--fail-first",
            type=int,
            default=0,
            metavar="N",
            help=f"Answer {FAILURE} to the first N requests of an event. Default: %(default)s.",
        )
        parser.add_argument(
            "--delay",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="Wait before each answer. Default: %(default)s.",
        )
        challenge = parser.add_mutually_exclusive_group()
        challenge.add_argument(
            "--no-challenge", action="store_true", help="Ignore the challenge, so that the handshake fails."
        )
        challenge.add_argument("--wrong-challenge", action="store_true", help="Answer with a wrong challenge.")
        parser.add_argument("--json", action="store_true", help="Print one line of JSON for each request.")

    def handle(self, *args: Any, **options: Any) -> None:
        arrivals: SimpleQueue[Received | None] = SimpleQueue()
        with stopped_by_signal(lambda: arrivals.put(None)), self._receiver(options, arrivals) as receiver:
            self.note(f"Listening on {receiver.url} …", role="SUCCESS")
            if not receiver.secrets:
                self.note("Signatures are not verified. Add the webhook's --secret.", role="WARNING")
            for received in iter(arrivals.get, None):
                self._show(received, as_lines=options["json"])

    def _receiver(self, options: dict[str, Any], arrivals: SimpleQueue[Received | None]) -> LocalReceiver:
        if not (0 <= options["delay"] <= 3600 and 0 <= options["fail_first"] <= 100):
            raise CommandError("--delay must be 0 to 3600 seconds, and --fail-first 0 to 100.")
        if not all(options["secret"]):
            raise CommandError("--secret is empty. Use the webhook's secret or remove the option.")
        try:
            return LocalReceiver(
                host=options["host"],
                port=options["port"],
                secrets=options["secret"],
                answers=Answers(
                    statuses=(FAILURE,) * options["fail_first"] + tuple(options["answer"]),
                    delay_seconds=options["delay"],
                    challenge=_challenge_answer(options),
                ),
                on_received=arrivals.put,
            )
        except (OSError, OverflowError, TypeError) as error:  # TypeError for a name that is not in UTF-8
            address = f"{options['host']!r}, port {options['port']}"
            problem = str(error).rstrip(".")
            raise CommandError(f"Cannot listen on {address}: {problem}. Choose another --port or --host.") from None

    def _show(self, received: Received, *, as_lines: bool) -> None:
        text = as_json(received) if as_lines else described_in(self.style, received)
        encoding = getattr(self.stdout, "encoding", None) or "utf-8"
        try:
            self.result(text.encode(encoding, "backslashreplace").decode(encoding))
        except BrokenPipeError:
            raise CommandError("The output was closed.") from None


def _statuses(argument: str) -> tuple[int, ...]:
    try:
        statuses = tuple(int(status) for status in argument.split(","))
    except ValueError:
        statuses = ()
    if not statuses or not all(200 <= status <= 599 for status in statuses):
        raise ArgumentTypeError(f"{argument!r} is not a list of statuses from 200 to 599, such as 500,503,200")
    return statuses


def _challenge_answer(options: dict[str, Any]) -> ChallengeAnswer:
    if options["no_challenge"]:
        return ChallengeAnswer.NONE
    return ChallengeAnswer.WRONG if options["wrong_challenge"] else ChallengeAnswer.RIGHT


def described_in(style: Style, received: Received) -> str:
    """Return a headline and the indented data of a request, safe to print on a terminal."""
    clock = received.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    name = style.MIGRATE_HEADING(printable(received.type or "not a webhook"))
    facts = [name, printable(received.event_id), _standing(received, style), _answer(received, style)]
    headline = f"{clock}  {'  '.join(fact for fact in facts if fact)}"
    content = _content(received)
    return "\n".join([headline, *(f"    {line}" for line in content.splitlines())])


def as_json(received: Received) -> str:
    """Return one line of JSON, in ASCII."""
    return json.dumps(
        {
            "received_at": format_time(received.at),
            "path": received.path,
            "type": received.type,
            "id": received.event_id,
            "verified": received.is_verified,
            "problem": received.problem,
            "copy": received.copy,
            "retry": received.is_retry,
            "duplicate": received.is_duplicate,
            "answered": received.status,
            "headers": list(received.headers),
            "body": received.body.decode(errors="replace"),
        }
    )


def _standing(received: Received, style: Style) -> str:
    words = []
    if received.problem:
        words.append(style.ERROR(f"REFUSED: {printable(received.problem)}"))
    elif received.is_verified:
        words.append(style.SUCCESS("valid signature"))
    else:
        words.append("not verified")
    if received.is_duplicate:
        words.append(style.WARNING("DUPLICATE"))
    elif received.is_retry:
        words.append(style.WARNING(f"RETRY {received.copy - 1}"))
    return ", ".join(words)


def _answer(received: Received, style: Style) -> str:
    paint = style.HTTP_SUCCESS if received.status == 200 else style.HTTP_BAD_REQUEST
    return f"answered {paint(str(received.status))}"


def _content(received: Received) -> str:
    """Return the data of a message, or the whole body of any other request, shortened if it is too long."""
    data: Any = received.message.get("data")
    if data is not None and not received.problem:
        text = json.dumps(data, indent=2, ensure_ascii=False)
    else:
        text = received.body.decode(errors="replace")
    shown = text[:MAX_BODY_CHARACTERS]
    left_out = len(text) - len(shown)
    return printable(shown, keep_newlines=True) + (f"\n… and {counted(left_out, 'more character')}" if left_out else "")
