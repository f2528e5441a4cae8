"""Every code block of the site is valid in its language, and names commands, options and settings that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError

from webhooks_app.conf import setting_types
from webhooks_app.pages import verification

from .pages import MANAGE, Block, blocks

LANGUAGES = {
    "python",
    "sh",
    "console",
    "json",
    "yaml",
    "ini",
    "html",
    "sql",
    "http",
    "nginx",
    "text",
    "js",
    "php",
    "go",
    "ruby",
    "java",
    "csharp",
}
NEW = ("start/", "questions/", "guides/", "integrators/", "reference/", "why/", "waking", "index")
OTHER_PACKAGES = ("db_worker", "run_huey", "rqworker")
"""Commands of packages that are not installed here."""
COMMANDS = [
    pytest.param(found["command"], found["rest"], id=f"{block}:{found['command']}")
    for block in blocks("sh", "console", under=NEW)
    for found in MANAGE.finditer(block.code.replace("\\\n", " "))
    if found["command"] not in OTHER_PACKAGES
]


def cases(*languages: str, under: tuple[str, ...] = ()) -> list:
    return [pytest.param(block, id=str(block)) for block in blocks(*languages, under=under)]


@pytest.mark.parametrize("block", cases(under=NEW))
def test_a_block_has_a_known_language(block: Block) -> None:
    assert block.language in LANGUAGES


@pytest.mark.parametrize("block", cases("python"))
def test_a_python_block_compiles(block: Block) -> None:
    compile(complete(block.code), str(block), "exec")


def complete(code: str) -> str:
    """Return Python code with something in the place of what a page leaves out."""
    return code.replace(" …,", " **_,").replace("…", "...")


def test_python_code_imports_only_what_it_uses(tmp_path: Path) -> None:
    files = {f"sample-{path.stem}.py": path.read_text() for path in verification.FOLDER.glob("*python.txt")}
    for block in blocks("python"):
        name = f"{block.page}-{block.file or block.line}".replace("/", "-").removesuffix(".py") + ".py"
        files[name] = files.get(name, "") + complete(block.code)  # the blocks of a file follow each other
    for name, code in files.items():
        if "__init__" not in name:  # which makes names available to others
            (tmp_path / name).write_text(code)

    options = ("check", "--isolated", "--select", "F401", "--quiet", "--output-format", "concise")
    found = subprocess.run(
        [sys.executable, "-m", "ruff", *options, tmp_path], capture_output=True, text=True, check=False
    )

    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)
    assert len(files) > 30


@pytest.mark.parametrize("block", cases("sh", under=NEW))
def test_a_shell_block_parses(block: Block) -> None:
    subprocess.run(["bash", "-n", "-c", block.code], check=True)


@pytest.mark.parametrize("block", cases("json", under=NEW))
def test_a_json_block_is_json(block: Block) -> None:
    json.loads(block.code)


@pytest.mark.parametrize("block", cases("yaml"))
def test_a_yaml_block_is_yaml(block: Block) -> None:
    assert yaml.safe_load(block.code)


@pytest.mark.parametrize("block", cases("ini"))
def test_an_ini_block_has_sections(block: Block) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read_string(block.code)

    assert parser.sections()


@pytest.mark.parametrize(("command", "rest"), COMMANDS)
def test_a_command_has_the_options_that_are_shown(command: str, rest: str) -> None:
    parser = load_command_class(get_commands()[command], command).create_parser("manage.py", command)
    parser.error = _refuse

    parser.parse_args(arguments_in(rest))


def arguments_in(text: str) -> list[str]:
    """Return the arguments up to a redirection, a closing parenthesis or the next command."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(takewhile(lambda token: not set(token) <= set("&|;<>()"), lexer))


def _refuse(message: str) -> None:
    raise CommandError(message)


def test_every_setting_that_is_named_exists() -> None:
    named = {name for block in blocks() for name in re.findall(r"\bWEBHOOKS_[A-Z_]+[A-Z]\b", block.code)}

    assert named - setting_types().keys() == set()
