"""Secrets of a development machine, which are kept in files."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def kept_secret(path: Path, size: int) -> str:
    """Return the secret in a file. If there is no file, write a random secret, readable only by the file's owner."""
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent) as new:
            new.write(f"{secrets.token_urlsafe(size)}\n")
            new.flush()
            with suppress(FileExistsError):  # Another process was first.
                os.link(new.name, path)
    return path.read_text().strip()
