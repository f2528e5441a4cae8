"""Chunked bodies have the same content and end for any division into network packets."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.transport.answer import MAX_CHUNK_LINE_BYTES, ChunkReader

LAST = b"0\r\n\r\n"

WHOLE = {
    "one-chunk": b"2\r\nok\r\n" + LAST,
    "two-chunks": b"1\r\no\r\n1\r\nk\r\n" + LAST,
    "leading-zeros": b"0002\r\nok\r\n000\r\n\r\n",
    "extension": b"2;name=value\r\nok\r\n0;last\r\n\r\n",
    "space-after-the-size": b"2 \r\nok\r\n" + LAST,
    "line-feeds-only": b"2\nok\n0\n\n",
    "trailer": b"2\r\nok\r\n0\r\nX-Trailer: t\r\nX-Other:\r\n\r\n",
}

NOT_WHOLE = {
    "nothing": b"",
    "no-last-chunk": b"2\r\nok\r\n",
    "no-blank-line": b"2\r\nok\r\n0\r\n",
    "half-a-blank-line": b"2\r\nok\r\n0\r\n\r",
    "trailer-without-blank-line": b"2\r\nok\r\n0\r\nX-Trailer: t\r\n",
    "more-behind-it": b"2\r\nok\r\n" + LAST + b"HTTP/1.1 500 Error\r\n\r\n",
    "one-byte-behind-it": b"2\r\nok\r\n" + LAST + b"\n",
}

BROKEN = {
    "longer-than-it-said": (b"2\r\nokay\r\n" + LAST, b"ok"),
    "shorter-than-it-said": (b"4\r\nok\r\n" + LAST, b"ok\r\n"),
    "negative-size": (b"-2\r\nok\r\n" + LAST, b""),
    "plus": (b"+2\r\nok\r\n" + LAST, b""),
    "prefix": (b"0x2\r\nok\r\n" + LAST, b""),
    "underscore": (b"2_0\r\nok\r\n" + LAST, b""),
    "no-size": (b"\r\nok\r\n" + LAST, b""),
    "space-before-the-size": (b" 2\r\nok\r\n" + LAST, b""),
    "not-ascii": ("\uff12\r\nok\r\n".encode() + LAST, b""),
    "huge-size": (b"f" * 19 + b"\r\nok\r\n" + LAST, b""),
    "return-in-an-extension": (b"2;\rx\r\nok\r\n" + LAST, b""),
    "second-answer-for-a-trailer": (b"2\r\nok\r\n0\r\nHTTP/1.1 500 Error\r\n\r\n", b"ok"),
    "long-extension": (b"2;" + b"x" * MAX_CHUNK_LINE_BYTES + b"\r\nok\r\n" + LAST, b""),
    "endless-extension": (b"2;" + b"x" * MAX_CHUNK_LINE_BYTES, b""),
}


def read(*pieces: bytes) -> tuple[bytes, ChunkReader]:
    reader = ChunkReader()
    return b"".join([reader.feed(piece) for piece in pieces]), reader


def in_single_bytes(body: bytes) -> list[bytes]:
    return [body[position : position + 1] for position in range(len(body))]


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_the_content_of_a_complete_body_is_that_of_its_chunks(body: bytes) -> None:
    for pieces in ([body], in_single_bytes(body)):
        content, reader = read(*pieces)

        assert content == b"ok"
        assert reader.is_whole


@pytest.mark.parametrize("body", NOT_WHOLE.values(), ids=NOT_WHOLE)
def test_a_body_is_incomplete_before_its_end_and_with_trailing_data(body: bytes) -> None:
    for pieces in ([body], in_single_bytes(body)):
        content, reader = read(*pieces)

        assert content == body[3:5]
        assert not reader.is_whole
        assert not reader.broken


@pytest.mark.parametrize(("body", "content_before"), BROKEN.values(), ids=BROKEN)
def test_an_invalid_body_ends_at_the_first_error(body: bytes, content_before: bytes) -> None:
    for pieces in ([body], in_single_bytes(body)):
        content, reader = read(*pieces)

        assert content == content_before
        assert reader.broken
        assert reader.is_over
        assert not reader.is_whole


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40)), rest=st.binary(max_size=5), cuts=st.sets(st.integers(0, 500))
)
def test_the_content_does_not_depend_on_the_division_into_pieces(
    chunks: list[bytes], rest: bytes, cuts: set[int]
) -> None:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + LAST + rest
    edges = [0, *sorted(cuts), len(body)]

    content, reader = read(*(body[start:end] for start, end in itertools.pairwise(edges)))

    assert content == b"".join(chunks)
    assert reader.rest == rest
    assert reader.is_whole == (not rest)
