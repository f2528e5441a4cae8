"""What a reader of a page perceives: texts, cells of tables, and parts by the names that screen readers say.

A test that uses it does not depend on the look of the page, such as the classes of its CSS.
"""

from __future__ import annotations

import re

from bs4 import BeautifulSoup, Tag


def parsed(html: str) -> BeautifulSoup:
    """Return a page without the break opportunities of its texts."""
    return BeautifulSoup(html.replace("<wbr>", ""), "html.parser")


def words(part: Tag | str) -> str:
    """Return a text as it is read, with single spaces."""
    found = parsed(part) if isinstance(part, str) else part
    return re.sub(r" (?=[.,:;)])|(?<=\() ", "", " ".join(found.get_text(" ").split()))


def name_of(part: Tag) -> str:
    """Return the label of an element, or the summary of details."""
    if ids := part.get("aria-labelledby"):
        root = [part, *part.parents][-1]
        return " ".join(words(label) for each in str(ids).split() for label in root.find_all(id=each))
    summary = part.find("summary", recursive=False)
    return str(part.get("aria-label") or (words(summary) if summary else ""))


def named(html: str, name: str) -> Tag:
    """Return the first region, list, chart or details with this name. Raises LookupError if there is none."""
    labelled = parsed(html).select("[aria-label], [aria-labelledby], details")
    names = [name_of(part) for part in labelled]
    if name not in names:
        raise LookupError(f"{name!r} is not among {names}")
    return labelled[names.index(name)]


def breadcrumbs(html: str) -> list[str]:
    return words(named(html, "Breadcrumbs")).split(" \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ")


def column(page: Tag, heading: str) -> list[Tag]:
    """Return the cells below this heading in the first table that has it, in any case of letters; [] if none has it."""
    for table in page.find_all("table"):
        headings = [words(cell).lower() for cell in table.select("thead th")]
        if heading.lower() in headings:
            rows = [row.find_all(["td", "th"], recursive=False) for row in table.select("tbody tr")]
            return [row[headings.index(heading.lower())] for row in rows]
    return []


def cells(html: str, heading: str) -> list[str]:
    """Return the texts below a heading."""
    return [words(cell) for cell in column(parsed(html), heading)]


def figure(html: str, name: str) -> str:
    """Return the value of the figure with this label; "" if there is none."""
    terms = [term for term in parsed(html).find_all("dt") if words(term) == name]
    return words(terms[0].find_next("dd")) if terms else ""


def refused(html: str) -> list[str]:
    """Return the names of the fields that are marked as invalid."""
    return [str(field["name"]) for field in parsed(html).select('[aria-invalid="true"]')]
