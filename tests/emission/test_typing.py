"""The annotations of emission, checked by mypy and pyright in a project."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]

PROJECT = dedent("""\
    from typing import Any

    from django.db.models.signals import post_save
    from pydantic import BaseModel

    from webhooks_app import Event, EventType, NewEvent, aemit, emit, emit_many, emit_on

    class InvoicePaid(BaseModel):
        amount: int

    class InvoiceSent(BaseModel):
        to: str

    INVOICE_PAID = EventType(
        name="invoice.paid", description="An invoice was paid", data_model=InvoicePaid, example={"amount": 5}
    )

    def emitted(owner: Any) -> list[Event]:
        INVOICE_PAID.emit(InvoiceSent(to="a"), owner=owner)  # wrong: another model
        INVOICE_PAID.emit(InvoicePaid(amount=5))  # wrong: no owner
        emit(INVOICE_PAID, InvoiceSent(to="a"), owner=owner)  # wrong: another model
        emit(INVOICE_PAID, 5, owner=owner)  # wrong: neither a model nor a mapping
        NewEvent(INVOICE_PAID, InvoiceSent(to="a"), owner=owner)  # wrong: another model
        emit_many([NewEvent(INVOICE_PAID, InvoicePaid(amount=5), owner=owner), 5])  # wrong: not a new event
        return [
            INVOICE_PAID.emit(InvoicePaid(amount=5), owner=owner),
            INVOICE_PAID.emit({"amount": 5}, owner=None),
            emit(INVOICE_PAID, InvoicePaid(amount=5), owner=owner),
            emit("invoice.paid", InvoicePaid(amount=5), owner=owner),
            emit("invoice.paid", {"amount": 5}, owner=owner),
            *emit_many([NewEvent(INVOICE_PAID, InvoicePaid(amount=5), owner=owner)]),
        ]

    async def emitted_async(owner: Any) -> list[Event]:
        return [
            await aemit("invoice.paid", {"amount": 5}, owner=owner),
            await INVOICE_PAID.aemit(InvoicePaid(amount=5), owner=owner),
        ]

    @emit_on(post_save, INVOICE_PAID)
    def invoice_saved(sender: Any, *, number: int, **kwargs: Any) -> tuple[Any, InvoicePaid] | None:
        return None

    invoice_saved(None, number="five")  # wrong: the decorated function has kept its type
    invoice_saved(None, number=5)

    @emit_on(post_save, INVOICE_PAID)
    def invoice_of_a_reader(sender: Any) -> NewEvent[InvoicePaid]:
        return NewEvent(INVOICE_PAID, InvoicePaid(amount=5), owner=None, references=["inv_1"])

    @emit_on(post_save, INVOICE_PAID)  # wrong: a function that returns neither None, owner and data, nor an event
    def number_of_invoices(sender: Any) -> int:
        return 5
    """)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "invoices.py"
    path.write_text(PROJECT)
    return path


def test_mypy_finds_wrong_calls_and_no_others(project: Path) -> None:
    done = run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "--follow-imports=silent", str(project))

    errors = re.findall(r"invoices\.py:(\d+): error", done.stdout)
    assert lines_with_errors(map(int, errors)) == wrong_lines(), done.stdout


def test_pyright_finds_wrong_calls_and_no_others(project: Path) -> None:
    done = run("pyright", "--outputjson", "--pythonpath", sys.executable, str(project))

    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"]
    assert lines_with_errors(errors) == wrong_lines(), done.stdout


def run(checker: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(
        [sys.executable, "-m", checker, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def lines_with_errors(numbers: Iterable[int]) -> list[str]:
    lines = PROJECT.splitlines()
    return [lines[number - 1] for number in sorted(set(numbers))]


def wrong_lines() -> list[str]:
    return [line for line in PROJECT.splitlines() if "# wrong" in line]
