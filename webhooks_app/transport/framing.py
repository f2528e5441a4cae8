"""The length of a response's body and the reuse of its connection, from the header (RFC 9112, section 6.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

HEADER_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[^\0\r\n]*\r?\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class Framing(NamedTuple):
    """The framing of a response. Without a length or chunks, the body ends with the connection."""

    length: int | None
    is_chunked: bool
    is_doubtful: bool
    """Whether a header line is invalid, or another parser could find a different end of the body."""
    keeps_connection: bool
    """Whether the header contains ``Connection: keep-alive``. Without it, some receivers close the connection."""


def read_framing(lines: Iterable[bytes]) -> Framing:
    """Return the framing for header lines, each with its line end."""
    values: dict[bytes, list[bytes]] = {}
    is_doubtful = False
    for line in lines:
        match = HEADER_LINE.fullmatch(line)
        if match is None:
            is_doubtful = True
        else:
            values.setdefault(match[1].lower(), []).append(line[match.end(1) + 1 :].strip(b" \t\r\n").lower())
    codings = values.get(b"transfer-encoding", [])
    lengths = values.get(b"content-length", [])
    length = int(lengths[0]) if len(lengths) == 1 and not codings and _LENGTH.fullmatch(lengths[0]) else None
    if codings:
        is_doubtful = is_doubtful or codings != [b"chunked"] or bool(lengths)
    elif lengths:
        is_doubtful = is_doubtful or length is None
    connection = _members(values.get(b"connection", []))
    return Framing(
        length=length,
        is_chunked=_members(codings)[-1:] == [b"chunked"],
        is_doubtful=is_doubtful,
        keeps_connection=b"keep-alive" in connection and b"close" not in connection,
    )


def _members(values: list[bytes]) -> list[bytes]:
    """Return the members of a list that may span several header lines."""
    return [member.strip(b" \t") for member in b",".join(values).split(b",")]
