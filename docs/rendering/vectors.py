"""Test vectors of the signature: ``python docs/rendering/vectors.py`` writes ``docs/_static/vectors.json``."""

from __future__ import annotations

import json
from pathlib import Path

from webhooks_app.signatures import sign

FILE = Path(__file__).parents[1] / "_static" / "vectors.json"
SECRET = "whsec_3qmX0XrTQd0cZ9m2sU1yVbWlPg7kEo5nHaJiRf4tLhc"  # noqa: S105 - published
OTHER_SECRET = "whsec_N7e2vKq0bT9xLrC4uYd8sWgZ1oPfJmHiA5tRnXkVbQw"  # noqa: S105 - published
THIRD_SECRET = "whsec_d5TqZrX8oLw2VnYc7bKe1GsHj4uMfPa9iRtNxWkQv3E"  # noqa: S105 - published
TIME = 1767268800
BODY = (
    '{"id":"evt_019b796dd6001f6d6a3c9f0e5b7d2a41","type":"invoice.paid","created":"2026-01-01T12:00:00.000000Z",'
    '"data":{"invoice_id":"inv_1","amount":4200,"title":"Rückblick 2025"}}'
)


def vectors() -> str:
    """Return the file: an object with a list of requests, each genuine or not."""
    found = [
        _vector("genuine"),
        _vector("five minutes old", now=TIME + 300),
        _vector("five minutes ahead", now=TIME - 300),
        _vector("too old", now=TIME + 301, genuine=False),
        _vector("too far ahead", now=TIME - 301, genuine=False),
        _vector("changed body", body=BODY.replace("4200", "4201"), genuine=False),
        _vector("body parsed and written again", body=json.dumps(json.loads(BODY)), genuine=False),
        _vector("changed timestamp", timestamp=str(TIME + 1), genuine=False),
        _vector("another secret", secret=OTHER_SECRET, genuine=False),
        _vector("current secret in a rotation", previous=_signature(secret=OTHER_SECRET)),
        _vector("previous secret in a rotation", secret=OTHER_SECRET, previous=_signature(secret=OTHER_SECRET)),
        _vector(
            "another secret in a rotation", secret=THIRD_SECRET, previous=_signature(secret=OTHER_SECRET), genuine=False
        ),
        _vector("current secret beside a prepared one", next=_signature(secret=OTHER_SECRET)),
        _vector("prepared secret before its activation", secret=OTHER_SECRET, next=_signature(secret=OTHER_SECRET)),
        _vector("another secret beside a prepared one", secret=THIRD_SECRET, next=_signature(), genuine=False),
        _vector("too old beside a prepared secret", now=TIME + 301, next=_signature(), genuine=False),
        _vector("too old in a rotation", now=TIME + 301, previous=_signature(), genuine=False),
        _vector("shortened signature", signature=_signature()[:-1], genuine=False),
        _vector("signature without its prefix", signature=_signature().removeprefix("sha256="), genuine=False),
        _vector("no signature", signature="", genuine=False),
        _vector("no timestamp", timestamp="", signature=_signature(timestamp=""), genuine=False),
        _vector("timestamp with a sign", timestamp=f"+{TIME}", signature=_signature(f"+{TIME}"), genuine=False),
        _vector("timestamp of words", timestamp="soon", signature=_signature("soon"), genuine=False),
        _vector("empty body", body="", signature=_signature(body="")),
    ]
    return json.dumps({"tolerance_seconds": 300, "vectors": found}, indent=2, ensure_ascii=False) + "\n"


def _vector(name: str, *, genuine: bool = True, **changes: object) -> dict[str, object]:
    headers = {"timestamp": str(TIME), "signature": _signature(), "previous": "", "next": ""}
    given = {"secret": SECRET, **headers, "body": BODY, "now": TIME}
    return {"name": name, **given, **changes, "genuine": genuine}


def _signature(timestamp: str = str(TIME), body: str = BODY, secret: str = SECRET) -> str:
    return sign(secret, timestamp, body.encode())


if __name__ == "__main__":
    FILE.write_text(vectors(), encoding="utf-8")
