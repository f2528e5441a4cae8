"""Checksum and page count of a file."""

from __future__ import annotations

import hashlib
import logging
import zipfile
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO

from pptx import Presentation
from pptx.exc import PythonPptxError
from pypdf import PdfReader
from pypdf.errors import PyPdfError

logger = logging.getLogger("example_project")

MAX_UNPACKED_BYTES = 200 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """``pages`` is None if this kind of file has no pages, or if they cannot be counted."""

    sha256: str
    pages: int | None


def inspect(file: IO[bytes], filename: str) -> Inspection:
    """Read a file and return its checksum and page count. Raises OSError if it cannot be read."""
    sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.seek(0)
    return Inspection(sha256=sha256, pages=_count_pages(file, filename))


def _count_pages(file: IO[bytes], filename: str) -> int | None:
    count = {".pdf": _count_pdf, ".pptx": _count_pptx, ".txt": _count_text, ".md": _count_text}.get(
        PurePath(filename).suffix.lower()
    )
    return count(file) if count else None


def _count_pdf(file: IO[bytes]) -> int | None:
    try:
        return len(PdfReader(file).pages)
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        # On malformed documents, pypdf raises its own errors and Python's.
        logger.info("The pages of a PDF cannot be counted (%s).", type(error).__name__)
        return None


def _count_pptx(file: IO[bytes]) -> int | None:
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_UNPACKED_BYTES:
                return None
        file.seek(0)
        return len(Presentation(file).slides)
    except (PythonPptxError, zipfile.BadZipFile, ValueError, KeyError, SyntaxError, AttributeError) as error:
        # A broken part causes an error of the XML parser (SyntaxError) or a missing item.
        logger.info("The pages of a presentation cannot be counted (%s).", type(error).__name__)
        return None


def _count_text(file: IO[bytes]) -> int:
    """Count the pages as a printer does: a form feed ends a page."""
    text = file.read().strip(b"\f\r\n\t ")
    return text.count(b"\f") + 1 if text else 0
