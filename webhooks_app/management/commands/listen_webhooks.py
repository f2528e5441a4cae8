"""``manage.py listen_webhooks``"""

from __future__ import annotations

from argparse import ArgumentTypeError
from queue import SimpleQueue
from typing import Any

from django.core.management.base import CommandError, CommandParser

from ...receiver.local import Answers, ChallengeAnswer, LocalReceiver, Received
from ..base import WebhooksCommand
from ..received_text import as_json, as_text
from ..stopping import stopped_by_signal

FAILURE = 500


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
        text = as_json(received) if as_lines else as_text(received, self.style)
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
