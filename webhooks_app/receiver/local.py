"""A local receiver for development: it verifies requests, sends scripted answers and records the requests."""

from __future__ import annotations

import enum
import json
import logging
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Optional

from .schemes import WebhookVerificationError
from .verification import MAX_BODY_BYTES, RETRY_NOTICE_TYPE, VERIFICATION_TYPE, verify

__all__ = ["Answers", "ChallengeAnswer", "LocalReceiver", "Received"]

logger = logging.getLogger("webhooks_app.local_receiver")

IDLE_SECONDS = 60


class ChallengeAnswer(enum.Enum):
    """The answer to a handshake."""

    RIGHT = "right"
    WRONG = "wrong"
    NONE = "none"


@dataclass(frozen=True)
class Answers:
    """The answers to genuine requests.

    The first request of an event gets the first status, its retry the second, and so on; all further requests get the
    last status. A retry notice, which is sent once, gets the last status too.
    """

    statuses: tuple[int, ...] = (200,)
    delay_seconds: float = 0.0
    challenge: ChallengeAnswer = ChallengeAnswer.RIGHT

    def status_of(self, event_type: str, copy: int) -> int:
        if event_type == VERIFICATION_TYPE:
            return 200
        last = len(self.statuses) - 1
        return self.statuses[last if event_type == RETRY_NOTICE_TYPE else min(copy - 1, last)]


@dataclass(frozen=True)
class Received:
    """A received request, the result of its verification, and the status of the answer."""

    at: datetime
    path: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    message: Mapping[str, Any]
    """The JSON object of the body; empty if there is none."""
    problem: str
    """The reason why this is not a genuine webhook; "" if none was found."""
    is_verified: bool
    """Whether the signature is valid. Without a secret, nothing is verified."""
    copy: int
    """1 for the first request of an event, 2 for its first repetition."""
    is_duplicate: bool
    """Whether the event was already answered with 200."""
    status: int

    @property
    def type(self) -> str:
        return str(self.message.get("type", ""))

    @property
    def event_id(self) -> str:
        return str(self.message.get("id", ""))

    @property
    def is_verification(self) -> bool:
        return self.type == VERIFICATION_TYPE

    @property
    def is_retry(self) -> bool:
        return self.copy > 1 and not self.is_duplicate


class LocalReceiver:
    """Accept connections once created, and answer between ``start`` and ``close``, or inside a ``with`` block.

    ``secrets`` and ``answers`` may be changed while it serves. ``on_received`` is called in a thread of the server,
    before the answer is sent. Raise OSError if the address is not available.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        secrets: Sequence[str] = (),
        answers: Optional[Answers] = None,
        on_received: Callable[[Received], object] = lambda received: None,
    ) -> None:
        self.secrets = tuple(secrets)
        self.answers = answers or Answers()
        self._on_received = on_received
        self._received: list[Received] = []
        self._copies: Counter[str] = Counter()
        self._accepted: set[str] = set()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._server = _Server((host, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> LocalReceiver:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if self._server.address_family == socket.AF_INET6 else str(host)
        return f"http://{name}:{port}/"

    @property
    def received(self) -> list[Received]:
        """The requests so far, in order."""
        with self._changed:
            return list(self._received)

    def events(self, event_type: Optional[str] = None) -> list[Received]:
        """Return the genuine requests so far, without handshakes, of one type or of all."""
        return [
            received
            for received in self.received
            if not (received.problem or received.is_verification) and event_type in (None, received.type)
        ]

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self._closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.cut_connections()

    def wait_until(self, condition: Callable[[Sequence[Received]], bool], timeout_seconds: float) -> bool:
        """Wait until the condition holds for the received requests; return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self._received), timeout_seconds)

    def receive(self, path: str, headers: Message, body: bytes) -> Received:
        """Verify and record a request; return it when the answer is due."""
        message = _json_object(body)
        problem = self._problem_of(headers, body, message)
        with self._changed:
            received = self._judged(
                path=path,
                headers=tuple(headers.items()),
                body=body,
                message=message,
                problem=problem,
                is_verified=bool(self.secrets and not problem),
            )
            self._received.append(received)
            self._changed.notify_all()
        self._on_received(received)
        self._closing.wait(self.answers.delay_seconds)
        return received

    def answer_to(self, received: Received) -> Mapping[str, Any]:
        """Return the JSON object of the answer to a request."""
        if received.problem:
            return {"error": received.problem}
        if received.status != 200:
            return {"error": f"This receiver is configured to answer {received.status}."}
        if received.is_verification and self.answers.challenge is not ChallengeAnswer.NONE:
            challenge = _challenge_of(received.message)
            return {"challenge": challenge if self.answers.challenge is ChallengeAnswer.RIGHT else f"not {challenge}"}
        return {"status": "duplicate" if received.is_duplicate else "received"}

    def _problem_of(self, headers: Message, body: bytes, message: Mapping[str, Any]) -> str:
        if not self.secrets:
            return "" if "type" in message else "The body is not a JSON object with a type."
        try:
            verify(body, headers, self.secrets)
        except WebhookVerificationError as error:
            return str(error)
        return ""

    def _judged(self, *, message: Mapping[str, Any], problem: str, **fields: Any) -> Received:
        event_id, event_type = str(message.get("id", "")), str(message.get("type", ""))
        copy = 1
        if event_id and not problem:
            copy = self._copies[event_id] = self._copies[event_id] + 1
        status = 400 if problem else self.answers.status_of(event_type, copy)
        is_duplicate = copy > 1 and event_id in self._accepted
        if event_id and status == 200:
            self._accepted.add(event_id)
        return Received(
            at=datetime.now(timezone.utc),
            message=message,
            problem=problem,
            copy=copy,
            is_duplicate=is_duplicate,
            status=status,
            **fields,
        )


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], receiver: LocalReceiver) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.receiver = receiver
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The base class looks up this machine's name, which can take seconds and is not needed.
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        for connection in tuple(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                logger.debug("A connection had ended already.")

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("A request could not be answered: %r", sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "webhooks_app"
    sys_version = ""
    timeout = IDLE_SECONDS
    # Header and body are sent together; otherwise each answer waits for the other side's delayed acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._refuse(411, "Send a Content-Length.")
        elif len(length) > 9 or int(length) > MAX_BODY_BYTES:
            self._refuse(413, f"The body is longer than {MAX_BODY_BYTES} bytes.")
        else:
            self._receive(int(length))

    def do_GET(self) -> None:
        self._refuse(405, "Send webhooks by POST.", Allow="POST")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        logger.debug(format, *args)

    def _receive(self, length: int) -> None:
        body = self.rfile.read(length)
        if len(body) < length:
            self.close_connection = True
            return
        receiver = self.server.receiver
        received = receiver.receive(self.path, self.headers, body)
        self._answer(received.status, receiver.answer_to(received))

    def _refuse(self, status: int, message: str, **headers: str) -> None:
        self.close_connection = True
        self._answer(status, {"error": message}, Connection="close", **headers)

    def _answer(self, status: int, content: Mapping[str, Any], **headers: str) -> None:
        body = b"" if status in (204, 304) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _json_object(body: bytes) -> Mapping[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _challenge_of(message: Mapping[str, Any]) -> Any:
    data = message.get("data")
    return data.get("challenge") if isinstance(data, dict) else None
