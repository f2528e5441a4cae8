"""The two messages of the verification handshake."""

from __future__ import annotations

import codecs
import json
import secrets
from typing import NoReturn

VERIFICATION_TYPE = "webhook.verification"


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
        return f"{_why_not_json(body, error, content_encoding, body_problem)} {_EXPECTED}"
    if not isinstance(answer, dict):
        return f"The answer is not a JSON object. {_EXPECTED}"
    if "challenge" not in answer:
        return "The answer has no field challenge at its top level."
    if answer["challenge"] != challenge:
        return "The field challenge of the answer differs from the challenge that was sent."
    return ""


_EXPECTED = "Answer with a JSON object in UTF-8 that has the field challenge."
_GZIP = b"\x1f\x8b"
_UTF_16_OR_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


class _ConstantError(ValueError):
    """A constant that JSON lacks, such as NaN."""


def _why_not_json(body: bytes, error: Exception, content_encoding: str, body_problem: str) -> str:
    coding = content_encoding.strip().lower()
    if not body:
        return body_problem or "The answer has no body."
    if body.startswith(_GZIP) or coding not in ("", "identity"):
        return f"The answer is compressed ({coding if coding.isalpha() else 'gzip'}). Send it without compression."
    if body.startswith(codecs.BOM_UTF8):
        return "The answer begins with a byte order mark, which JSON may not have."
    if body.startswith(_UTF_16_OR_32):
        return "The answer is not JSON in UTF-8, but in UTF-16 or UTF-32."
    if isinstance(error, _ConstantError):
        return f"The answer is not JSON: it contains {error}, which JSON does not have."
    if body_problem:
        return body_problem
    if isinstance(error, UnicodeDecodeError):
        return "The answer is not JSON in UTF-8."
    if isinstance(error, RecursionError):
        return "The answer is not JSON that can be read: it is nested too deeply."
    return "The answer is not JSON."


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantError(name)
