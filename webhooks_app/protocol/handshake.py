"""The two messages of the verification handshake."""

from __future__ import annotations

import codecs
import json
import secrets
from typing import NoReturn

from ..reasons import ReasonText
from ..receiver.verification import VERIFICATION_TYPE


def new_challenge() -> str:
    return secrets.token_urlsafe(32)


def challenge_body(challenge: str) -> bytes:
    """Return the request body, exactly as the specification shows it."""
    message = {"type": VERIFICATION_TYPE, "data": {"challenge": challenge}}
    return json.dumps(message, separators=(",", ":")).encode()


def refusal_of_answer(challenge: str, body: bytes, *, content_encoding: str = "", body_problem: str = "") -> str:
    """Return the reason why the body of a 200 answer does not pass the handshake; "" if it does.

    ``body_problem`` is the reason for an incomplete body, as a sentence.
    """
    try:
        answer = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return _not_json(_why_not_json(body, error, content_encoding, body_problem))
    if not isinstance(answer, dict):
        return _not_json(ReasonText("answer_not_object"))
    if "challenge" not in answer:
        return ReasonText("challenge_missing")
    if answer["challenge"] != challenge:
        return ReasonText("challenge_wrong")
    return ""


_GZIP = b"\x1f\x8b"
_UTF_16_OR_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


class _ConstantError(ValueError):
    """A constant that JSON lacks, such as NaN."""


def _not_json(problem: str) -> ReasonText:
    return ReasonText("challenge_not_json", problem=problem)


def _why_not_json(body: bytes, error: Exception, content_encoding: str, body_problem: str) -> str:
    coding = content_encoding.strip().lower()
    if not body:
        return body_problem or ReasonText("answer_empty")
    if body.startswith(_GZIP) or coding not in ("", "identity"):
        return ReasonText("answer_compressed", coding=coding if coding.isalpha() else "gzip")
    if body.startswith(codecs.BOM_UTF8):
        return ReasonText("answer_has_bom")
    if body.startswith(_UTF_16_OR_32):
        return ReasonText("answer_wide")
    if isinstance(error, _ConstantError):
        return ReasonText("answer_has_constant", constant=str(error))
    if body_problem:
        return body_problem
    if isinstance(error, UnicodeDecodeError):
        return ReasonText("answer_not_utf8")
    if isinstance(error, RecursionError):
        return ReasonText("answer_nested")
    return ReasonText("answer_not_json")


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantError(name)
