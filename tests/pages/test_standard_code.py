"""The code for the secrets and the public keys of Standard Webhooks, with genuine requests and others."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.missing import skip_without
from webhooks_app.pages.verification import LANGUAGES, code_in
from webhooks_app.signatures import Message, StandardEd25519Signature, StandardSignature

pytestmark = [pytest.mark.only_on("sqlite"), pytest.mark.timeout(300)]

SCHEMES = [
    *((name, StandardSignature(), "WEBHOOK_SECRET") for name in LANGUAGES),
    *((name, StandardEd25519Signature(), "WEBHOOK_PUBLIC_KEY") for name in ("python", "javascript")),
]
"""Each language with a scheme, and the environment variable of the key."""

OWN, OTHER = "own", "other"
BODY = '{"übung": 1}'.encode()
MINUTES = 60

SIGNED = {
    "genuine": (True, "evt_1", 0, BODY, [OWN]),
    "during a rotation": (True, "evt_1", 0, BODY, [OTHER, OWN]),
    "another secret": (False, "evt_1", 0, BODY, [OTHER]),
    "old": (False, "evt_1", -6 * MINUTES, BODY, [OWN]),
    "from the future": (False, "evt_1", 60 * MINUTES, BODY, [OWN]),
    "another id": (False, "evt_2", 0, BODY, [OWN]),
    "another body": (False, "evt_1", 0, b"{}", [OWN]),
    "not signed": (False, "evt_1", 0, BODY, []),
}
"""Whether a request is genuine, and the id, the age, the body and the keys of its signature. It has evt_1 and BODY."""

STRANGE = {
    "empty": "",
    "not a number": "soon",
    "negative": "-1",
    "longer than numbers of Python may be": "1" * 5000,
}
"""Timestamps that no request of the service has, each sent with a signature of it."""

DRIVERS = {
    "python": """
import sys

for line in sys.stdin:
    timestamp, signature = line.rstrip("\\n").split(",", 1)
    headers = {"webhook-id": "evt_1", "webhook-timestamp": timestamp, "webhook-signature": signature}
    print(is_genuine(headers, open("body", "rb").read()))
""",
    "javascript": """
import { readFileSync } from "node:fs";
for (const line of readFileSync(0, "utf8").trimEnd().split("\\n")) {
  const [timestamp, ...parts] = line.split(",");
  const headers = { "webhook-id": "evt_1", "webhook-timestamp": timestamp, "webhook-signature": parts.join(",") };
  console.log(isGenuine(headers, readFileSync("body")));
}
""",
    "php": """
while ($line = fgets(STDIN)) {
    [$timestamp, $signature] = explode(",", rtrim($line, "\\n"), 2);
    $_SERVER["HTTP_WEBHOOK_ID"] = "evt_1";
    $_SERVER["HTTP_WEBHOOK_TIMESTAMP"] = $timestamp;
    $_SERVER["HTTP_WEBHOOK_SIGNATURE"] = $signature;
    echo isGenuine(file_get_contents("body")) ? "true\\n" : "false\\n";
}
""",
    "ruby": """
STDIN.each_line do |line|
  timestamp, signature = line.chomp.split(",", 2)
  headers = { "webhook-id" => "evt_1", "webhook-timestamp" => timestamp, "webhook-signature" => signature }
  puts genuine?(ENV["WEBHOOK_SECRET"], headers, File.binread("body"))
end
""",
    "go": """
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	body, _ := os.ReadFile("body")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		timestamp, signature, _ := strings.Cut(lines.Text(), ",")
		headers := http.Header{}
		headers.Set("webhook-id", "evt_1")
		headers.Set("webhook-timestamp", timestamp)
		headers.Set("webhook-signature", signature)
		fmt.Println(IsGenuine(os.Getenv("WEBHOOK_SECRET"), headers, body, time.Now().Unix()))
	}
}
""",
}
"""Programs that print the answer of the code for each line of the input."""

COMMANDS = {
    "python": [sys.executable, "code.py"],
    "javascript": ["node", "code.mjs"],
    "php": ["php", "code.php"],
    "ruby": ["ruby", "code.rb"],
    "go": ["go", "run", "code.go", "driver.go"],
}


def each_code(test: Any) -> Any:
    ids = [f"{name}, {scheme.name}" for name, scheme, _variable in SCHEMES]
    return pytest.mark.parametrize(("language", "scheme", "variable"), SCHEMES, ids=ids)(test)


@each_code
def test_the_code_tells_genuine_requests_from_others(language: str, scheme: Any, variable: str, tmp_path: Path) -> None:
    command, code, driver = COMMANDS[language], code_in(language, scheme), DRIVERS[language]
    if shutil.which(command[0]) is None:
        skip_without(f"{command[0]} was not found")
    (tmp_path / "body").write_bytes(BODY)
    if language == "go":
        (tmp_path / "driver.go").write_text(driver)
        (tmp_path / "code.go").write_text(code.replace("package webhooks", "package main"))
    else:
        (tmp_path / command[1]).write_text(code + driver)

    now, made = int(time.time()), {OWN: scheme.new_key(), OTHER: scheme.new_key()}
    lines = [
        f"{now + age},{scheme.sign(Message(pk, '', now + age, body), [made[key] for key in keys])}\n"
        for _is_genuine, pk, age, body, keys in SIGNED.values()
    ]
    genuine, others = (
        [scheme.sign(Message("evt_1", "", now, BODY), [key]) for key in keys]
        for keys in ([made[OWN]], [scheme.new_key() for _ in range(8)])
    )
    received = {
        "another version": genuine[0].replace(f"{scheme.version},", "v9,"),
        "without a version": genuine[0].removeprefix(f"{scheme.version},"),
        "not base64": f"{scheme.version},a",
        "after something that is not base64": f"{scheme.version},a {genuine[0]}",
        "after eight others": " ".join(others + genuine),
    }
    lines += [f"{now},{signature}\n" for signature in received.values()]
    for timestamp in STRANGE.values():
        signature = base64.b64encode(scheme.digest(made[OWN], f"evt_1.{timestamp}.".encode() + BODY)).decode()
        lines.append(f"{timestamp},{scheme.version},{signature}\n")
    environment = {**os.environ, variable: scheme.verification_key(made[OWN])}
    done = subprocess.run(
        command, cwd=tmp_path, input="".join(lines), capture_output=True, text=True, check=False, env=environment
    )

    assert done.returncode == 0, done.stderr
    names = [*SIGNED, *received, *STRANGE]
    found = dict(zip(names, (each.lower() == "true" for each in done.stdout.split()), strict=True))
    expected = {name: is_genuine for name, (is_genuine, *_signed) in SIGNED.items()}
    expected |= dict.fromkeys([*received, *STRANGE], False)
    # Each signature of a key pair takes a pass over the body, so that only eight are verified.
    expected |= {"after something that is not base64": True, "after eight others": not scheme.is_asymmetric}
    assert found == expected


@each_code
def test_the_code_has_the_names_of_the_headers_of_a_subclass(language: str, scheme: Any, variable: str) -> None:
    class OwnSignature(type(scheme)):  # type: ignore[misc]
        header_names = ("Acme-Id", "Acme-Time", "Acme-Signature")

    code = code_in(language, OwnSignature()).lower().replace("_", "-")

    assert all(name.lower() in code for name in OwnSignature.header_names)
    assert not any(name.lower() in code for name in scheme.header_names)
