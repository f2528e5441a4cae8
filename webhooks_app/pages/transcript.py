"""Requests and responses of a delivery's attempts, prepared for a page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from ..conf import settings
from ..models import Delivery, DeliveryAttempt
from ..models.disclosure import UNREACHABLE
from ..models.hold import holds_of
from .display import DeliveryUrl, attempt_in_words, in_time, pretty_json
from .explanation import ended_at, hold_in_words, what_followed, why

STAGE_NAMES = {
    "dns": _("Name resolved"),
    "connect": _("Connected"),
    "tls": _("TLS established"),
    "first_byte": _("First byte of the response"),
}
REST = _("Rest of the response")

NEVER_CONNECTED = (DeliveryAttempt.Result.DNS_ERROR, DeliveryAttempt.Result.ADDRESS_REFUSED)
AT_TIMES_CONNECTED = (DeliveryAttempt.Result.CONNECTION_ERROR, DeliveryAttempt.Result.TIMEOUT)
"""Results that may occur without a connection; those of ``NEVER_CONNECTED`` always do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage of an attempt with its duration."""

    label: str
    milliseconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownAttempt:
    """An attempt with its request, its response and the explanation of both."""

    attempt: DeliveryAttempt
    why: str
    what_followed: str
    request_header: str
    request_body: str
    response_header: str
    curl: str
    stages: list[Stage]
    shows_body: bool
    is_kept: bool
    gap: str = ""
    """The time from the end of the previous attempt to the start of this one."""

    @property
    def request_json(self) -> str:
        return indented(self.request_body)

    @property
    def response_json(self) -> str:
        return indented(self.attempt.response_body)

    @property
    def is_sent(self) -> bool:
        """False if there was certainly no connection. With a proxy this is unknown, so the result is True."""
        if self.attempt.result in NEVER_CONNECTED:
            return False
        is_connected = self.attempt.peer or "connect" in self.attempt.timings or settings.EGRESS_PROXY
        return bool(is_connected) or self.attempt.result not in AT_TIMES_CONNECTED

    @property
    def result(self) -> str:
        return attempt_in_words(self.attempt)

    @property
    def is_hidden(self) -> bool:
        """True if the request and the response are hidden from the user."""
        return self.attempt.result == UNREACHABLE

    @property
    def is_success(self) -> bool:
        return self.attempt.result == DeliveryAttempt.Result.SUCCEEDED


def attempts_of(delivery: Delivery, *, shows_body: bool = True, url: DeliveryUrl) -> dict[str, Any]:
    """Return the context of a delivery with its attempts, as ``transcript``."""
    hold = holds_of([delivery], now=timezone.now())[0]
    return {
        "delivery": delivery,
        "front_url": url(hold.blocker) if hold and hold.blocker else "",
        "is_done": delivery.state != Delivery.State.PENDING,
        "attempts": transcript(delivery.shown_attempts(), delivery, shows_body=shows_body, url=url),
        "waiting_for": hold_in_words(hold, delivery, url=url),
    }


def transcript(
    attempts: Sequence[DeliveryAttempt], delivery: Delivery, *, shows_body: bool, url: DeliveryUrl
) -> list[ShownAttempt]:
    """Return the attempts of a delivery for a page, oldest first, with the body of the event if the user may view it.

    ``attempts`` are as the user may see them. ``url`` returns the URL of another delivery.
    """
    shown = [
        _shown(attempt, following, delivery, shows_body, url)
        for attempt, following in zip_longest(attempts, attempts[1:])
    ]
    gaps = ["", *(gap_between(*pair) for pair in pairwise(attempts))]
    return [replace(each, gap=gap) for each, gap in zip(shown, gaps[: len(shown)], strict=True)]


def gap_between(attempt: DeliveryAttempt, following: DeliveryAttempt) -> str:
    """Return the time between two attempts; "" if the user may not see when they took place."""
    if UNREACHABLE in (attempt.result, following.result) or following.started_at is None:
        return ""
    return in_time(following.started_at - ended_at(attempt))


def indented(text: str) -> str:
    """Return JSON with indentation, and any other text unchanged."""
    try:
        return pretty_json(text)
    except (ValueError, RecursionError):
        return text


def _shown(
    attempt: DeliveryAttempt, following: DeliveryAttempt | None, delivery: Delivery, shows_body: bool, url: DeliveryUrl
) -> ShownAttempt:
    is_kept = delivery.event is None or delivery.event.has_body
    header = attempt.request_header
    if not is_kept:  # The length is lost with the body.
        header = header.partition("Content-Length:")[0]
    body = attempt.request_body.decode() if header and shows_body else ""
    return ShownAttempt(
        attempt=attempt,
        why=why(attempt),
        what_followed=what_followed(attempt, following, delivery, url=url),
        request_header=header.replace("\r\n", "\n").rstrip("\n"),
        request_body=body,
        response_header="\n".join(f"{name}: {value}" for name, value in attempt.response_headers),
        curl=curl_command(attempt.url, header, body) if body else "",
        stages=list(_stages(attempt.timings, attempt.duration_ms)),
        shows_body=shows_body,
        is_kept=is_kept,
    )


def curl_command(url: str, header: str, body: str) -> str:
    """Return a shell command that repeats the request."""
    lines = header.split("\r\n")[1:]
    left_to_curl = ("host:", "content-length:", "accept:")
    options = [f"--header {shlex.quote(line)}" for line in lines if line and not line.lower().startswith(left_to_curl)]
    parts = [f"curl --include --globoff {shlex.quote(url)}", *options, f"--data-binary {shlex.quote(body)}"]
    return " \\\n  ".join(parts)


def _stages(timings: dict[str, Any], duration_ms: int | None) -> Iterator[Stage]:
    """Yield the duration of each stage. ``timings`` holds the end of each stage in milliseconds since the start."""
    before = 0
    for name, end in sorted(timings.items(), key=lambda item: item[1]):
        yield Stage(label=str(STAGE_NAMES.get(name, name)), milliseconds=max(0, end - before))
        before = end
    if "first_byte" in timings and duration_ms is not None:
        yield Stage(label=str(REST), milliseconds=max(0, duration_ms - before))
