"""A list of all code that could open a connection or resolve a name, so that none bypasses the guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import webhooks_app

ROOT = Path(webhooks_app.__file__).parent

MODULES = {
    *("aiohttp", "asyncio", "ftplib", "http.client", "http.server", "httpx", "imaplib", "multiprocessing", "poplib"),
    *("pycurl", "requests", "select", "selectors", "smtplib", "socket", "socketserver", "ssl", "subprocess"),
    *("telnetlib", "urllib.request", "urllib3", "websockets", "xmlrpc"),
}
"""Functions and modules that connect, listen or resolve, in the standard library and in common packages."""

CALLS = {
    *("connect", "connect_ex", "create_connection", "create_server", "getaddrinfo", "getfqdn", "gethostbyaddr"),
    *("gethostbyname", "gethostbyname_ex", "getnameinfo", "open_connection", "sendto", "urlopen", "urlretrieve"),
    *("import_module", "__import__", "system", "popen"),
}

ALLOWED = {
    "transport/connections.py": {
        "import socket": "opens all sockets of the transports, and a pair that ends the wait for them",
        "import select": "waits for them",
        "import ssl": "types",
    },
    "transport/opening.py": {
        "import socket": "types",
        "import ssl": "types",
        "call connect": "to addresses that the guard has checked, or to the proxy of the setting",
    },
    "transport/requests.py": {
        "import requests": "the adapter, beneath which a guarded transfer runs",
        "import urllib3": "the errors of test libraries",
        "import http.client": "the errors of test libraries",
        "import select": "waits for the sockets of a transfer",
    },
    "transport/tls.py": {"import socket": "types", "import ssl": "the trust store, and TLS on those sockets"},
    "emission/emitting.py": {
        "import asyncio": "whether the code runs in an event loop",
        "call connect": "a signal of Django",
    },
    "delivery/listening.py": {"import select": "waits for the database's connection, which is there already"},
    "transport/system_names.py": {
        "import socket": "the system's resolver",
        "call getaddrinfo": "the only lookup of names, whose answers the guard checks",
    },
    "implementations.py": {"call import_module": "the implementations that settings name"},
    "checks/contents.py": {"import ssl": "whether the extra bundle can be read"},
    "api/errors.py": {"import http.client": "the names of statuses"},
    "receiver/local.py": {
        "import socket": "types",
        "import socketserver": "a receiver on the developer's machine, which only listens",
        "import http.server": "a receiver on the developer's machine, which only listens",
    },
    "__init__.py": {"call import_module": "the names that the package offers"},
    "apps.py": {"call connect": "a signal of Django"},
    "wake/engine_thread.py": {"import multiprocessing": "what runs at the end of a process"},
    "wake/messages.py": {"import multiprocessing": "what runs at the end of a process"},
    "tasks.py": {"call connect": "a signal of Celery"},
    "management/commands/deliver_webhooks.py": {"call connect": "a signal of Django"},
}
"""The findings by file, and the reason why each does not bypass the guard. Review every new entry carefully."""


def test_only_the_listed_code_can_open_a_connection() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): things
        for path in sorted(ROOT.rglob("*.py"))
        if (things := set(_things(ast.parse(path.read_text()))))
    }

    assert found == {path: set(reasons) for path, reasons in ALLOWED.items()}


def test_the_search_finds_every_notation() -> None:
    source = """
import socket as s, os.path
import urllib.request
from http import client
from requests.adapters import HTTPAdapter
from ..conf import settings
def late():
    from socket import create_connection as open_it
    s.create_connection(("a", 1)); getaddrinfo("a", 1); HTTPAdapter().send(1)
    run = s.socket().connect
"""

    assert set(_things(ast.parse(source))) == {
        *("import socket", "import urllib.request", "import http.client", "import requests"),
        *("call create_connection", "call getaddrinfo", "call connect"),
    }


def _things(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for name in _imported(node):
            if module := _network_module(name):
                yield f"import {module}"
        called = getattr(node, "attr", getattr(node, "id", None))
        if isinstance(node, ast.Attribute | ast.Name) and called in CALLS:
            yield f"call {called}"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _network_module(name: str) -> str | None:
    parts = name.split(".")
    return next((start for end in range(len(parts), 0, -1) if (start := ".".join(parts[:end])) in MODULES), None)
