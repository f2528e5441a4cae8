"""Code for receivers that verifies signatures, with the names of the headers of a signature scheme.

Each language has a file here with a receiver, or a function, for the scheme of the specification, and one with a
function for the secrets of Standard Webhooks. The documentation for integrators has the first. Python and JavaScript
also have a function for its public keys. Tests run all of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...signatures import BaseSignature, NativeSignature, StandardEd25519Signature, StandardSignature

LANGUAGES = {"python": "Python", "javascript": "JavaScript (Node.js)", "php": "PHP", "go": "Go", "ruby": "Ruby"}

FOLDER = Path(__file__).parent

FILES: dict[type[BaseSignature], str] = {
    NativeSignature: "",
    StandardSignature: "standard_",
    StandardEd25519Signature: "ed25519_",
}
"""The beginning of the names of the files for each scheme and its subclasses."""


class Sample(NamedTuple):
    """Code for a receiver in one language."""

    name: str
    label: str
    code: str
    takes_public_key: bool


def samples_for(schemes: Iterable[BaseSignature]) -> list[Sample]:
    """Return the code in each language for the first scheme that has any, preferably one with a secret."""
    known = (each for each in sorted(schemes, key=lambda each: each.is_asymmetric) if isinstance(each, tuple(FILES)))
    if (scheme := next(known, None)) is None:
        return []
    names = [name for name in LANGUAGES if _file(name, scheme).exists()]
    return [Sample(name, LANGUAGES[name], code_in(name, scheme), scheme.is_asymmetric) for name in names]


def receiver_for(schemes: Iterable[BaseSignature]) -> str:
    """Return a whole receiver in Python for the first scheme that signs as the specification does; "" without one."""
    scheme = next((each for each in schemes if isinstance(each, NativeSignature)), None)
    return code_in("python", scheme) if scheme else ""


def code_in(language: str, scheme: BaseSignature) -> str:
    """Return the code in a language, with the names of the headers of the scheme."""
    code = _stored(_file(language, scheme))
    names = zip(_shipped(scheme).header_names, scheme.header_names, strict=False)
    for name, own in sorted(names, key=lambda pair: -len(pair[0])):  # one name is the beginning of another
        for spelling, replacement in zip(_spellings(name), _spellings(own), strict=True):
            code = code.replace(spelling, replacement)
    return code


def command_for_python(secret: str, port: int) -> str:
    """Return the command that runs the receiver, saved as ``receiver.py``."""
    return f"WEBHOOK_SECRET={shlex.quote(secret)} PORT={port} python3 receiver.py"


def _file(language: str, scheme: BaseSignature) -> Path:
    return FOLDER / f"{FILES[_shipped(scheme)]}{language}.txt"


def _shipped(scheme: BaseSignature) -> type[BaseSignature]:
    """Return the scheme of this app that this one is, or is a subclass of."""
    return next(each for each in FILES if isinstance(scheme, each))


@cache
def _stored(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _spellings(name: str) -> Iterator[str]:
    """Yield the name of a header as it is sent, as Node.js has it, and as PHP has it."""
    yield from (name, name.lower(), f"HTTP_{name.upper().replace('-', '_')}")
