"""The verification handshake's two messages (interface: Verification handshake)."""

from __future__ import annotations

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


def refusal_of_answer(challenge: str, body: bytes) -> str:
    """Return why the body of a 200 answer does not pass the handshake; "" if it does."""
    try:
        answer = json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return "The answer is not JSON in UTF-8; it must be a JSON object with the field challenge."
    if not isinstance(answer, dict):
        return "The answer is not a JSON object; it must be one with the field challenge."
    if "challenge" not in answer:
        return "The answer has no field challenge at its top level."
    if answer["challenge"] != challenge:
        return "The field challenge of the answer differs from the challenge that was sent."
    return ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
