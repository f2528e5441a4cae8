"""Colours on a terminal, plain text elsewhere."""

from __future__ import annotations

import io

import pytest

from example_project.terminal import Terminal


class Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _a_usual_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_pipe_gets_neither_colour_nor_progress():
    pipe = io.StringIO()
    terminal = Terminal(pipe)

    terminal.show_progress("soon")
    terminal.print_line(terminal.paint("done", "green"))

    assert pipe.getvalue() == "done\n"


def test_a_terminal_gets_colour():
    assert Terminal(Screen()).paint("done", "green", "bold") == "\x1b[32;1mdone\x1b[0m"


def test_no_color_disables_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    assert Terminal(Screen()).paint("done", "green") == "done"


def test_progress_stays_below_the_output():
    screen = Screen()
    terminal = Terminal(screen)

    terminal.show_progress("soon")
    terminal.print_line("meanwhile")
    terminal.clear_progress()

    soon = "\r\x1b[2K\x1b[2msoon\x1b[0m"
    assert screen.getvalue() == f"{soon}\r\x1b[2Kmeanwhile\n{soon}\r\x1b[2K"


def test_unencodable_characters_are_replaced():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal(stream).print_line("✓ done")

    assert stream.buffer.getvalue() == b"? done\n"
