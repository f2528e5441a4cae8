"""The pages of the documentation site, and their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(
    r"^(?P<mark><!-- test: not run here -->\n)?(?P<indent> *)```(?P<language>[\w{}-]*)(?: [^\n]*)?\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
MANAGE = re.compile(r"\bmanage\.py (?P<command>[a-z_]+)(?P<rest>.*)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of code on a page."""

    page: str
    line: int
    language: str
    code: str
    runs: bool

    @property
    def file(self) -> str:
        """The file that its first line names; "" if it is not the content of a file."""
        found = re.match(r"[#;] ([\w./@-]+\.\w+)\b", self.code)
        return found[1] if found else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def names() -> list[str]:
    """Return the pages by their paths below ``docs``."""
    return sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def blocks(*languages: str, under: tuple[str, ...] = ()) -> list[Block]:
    """Return the blocks in these languages, or all, of the pages whose paths begin with one of ``under``."""
    return [
        block
        for name in names()
        for block in blocks_of(name)
        if (not languages or block.language in languages) and (not under or name.startswith(under))
    ]


def blocks_of(name: str) -> list[Block]:
    """Return the blocks of a page, without those of directives."""
    text = (DOCS / name).read_text()
    return [
        Block(
            page=name,
            line=text[: found.start("code")].count("\n"),
            language=found["language"],
            code=re.sub(f"^{found['indent']}", "", found["code"], flags=re.MULTILINE),
            runs=not found["mark"],
        )
        for found in FENCE.finditer(text)
        if not found["language"].startswith("{")
    ]
