"""HTTP client of the service."""

from __future__ import annotations

from typing import Any

import requests

TIMEOUT_SECONDS = 30


class UnexpectedAnswerError(Exception):
    """An unexpected answer of the service, described in the message."""


class Client:
    def __init__(self, base_url: str, api_key: str) -> None:
        self._base_url = base_url
        self._session = requests.Session()
        self._session.trust_env = False  # No proxy for loopback, and no .netrc that replaces the key.
        self._session.headers["Authorization"] = f"Bearer {api_key}"

    def get(self, path: str) -> Any:
        return self._call("GET", path, 200).json()

    def post(self, path: str, content: Any = None, *, expect: int = 202) -> Any:
        return self._call("POST", path, expect, json=content).json()

    def upload(self, path: str, filename: str, content: bytes) -> Any:
        return self._call("POST", path, 201, files={"file": (filename, content)}).json()

    def delete(self, path: str) -> None:
        self._call("DELETE", path, 204)

    def download(self, url: str) -> bytes:
        """Return the content of an absolute URL of the service."""
        return self._call("GET", url.removeprefix(self._base_url), 200).content

    def _call(self, method: str, path: str, expected: int, **options: Any) -> requests.Response:
        answer = self._session.request(method, f"{self._base_url}{path}", timeout=TIMEOUT_SECONDS, **options)
        if answer.status_code != expected:
            raise UnexpectedAnswerError(
                f"{method} {path} was answered with {answer.status_code}, not {expected}: {answer.text[:500]}"
            )
        return answer
