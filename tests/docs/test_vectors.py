"""The published test vectors, and the functions of the page for integrators that must pass them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from docs.rendering.vectors import FILE, vectors
from tests.support.missing import skip_without

from .pages import DOCS

VECTORS = json.loads(vectors())["vectors"]
HEADERS = (
    *("X-Webhook-Timestamp", "X-Webhook-Signature"),
    *("X-Webhook-Signature-Previous", "X-Webhook-Signature-Next"),
)
NAMES = ("secret", "timestamp", "signature", "previous", "next", "body", "now")
PAGE = (DOCS / "integrators" / "verifying.md").read_text()

RUBY = """
STDIN.each_line do |line|
  secret, timestamp, signature, previous, following, body, now = line.chomp.split(",").map { |part| [part].pack("H*") }
  headers = ARGV.zip([timestamp, signature, previous, following]).to_h.reject { |name, value| value.empty? }
  puts genuine?(secret, headers, body, now.to_i)
end
"""
JAVA = """
class Check {
    static String text(String hex) { return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8); }

    public static void main(String[] none) throws Exception {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] given = line.split(",");
            System.out.println(WebhookSignature.isGenuine(text(given[0]), text(given[1]), text(given[2]),
                text(given[3]), text(given[4]), HexFormat.of().parseHex(given[5]), Long.parseLong(text(given[6]))));
        }
    }
}
"""
CSHARP = """
public static class Check
{
    static byte[] Bytes(string hex)
    {
        return Enumerable.Range(0, hex.Length / 2).Select(i => Convert.ToByte(hex.Substring(2 * i, 2), 16)).ToArray();
    }

    static string Text(string hex) { return Encoding.UTF8.GetString(Bytes(hex)); }

    public static void Main()
    {
        for (string line; (line = Console.ReadLine()) != null; )
        {
            string[] given = line.Split(',');
            Console.WriteLine(WebhookSignature.IsGenuine(
                Text(given[0]), Text(given[1]), Text(given[2]), Text(given[3]), Text(given[4]), Bytes(given[5]),
                long.Parse(Text(given[6]))));
        }
    }
}
"""
GO = """
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func text(digits string) string {
	found, _ := hex.DecodeString(digits)
	return string(found)
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		given := strings.Split(lines.Text(), ",")
		now, _ := strconv.ParseInt(text(given[6]), 10, 64)
		body := []byte(text(given[5]))
		headers := http.Header{}
		for index, name := range os.Args[1:] {
			if value := text(given[1+index]); value != "" {
				headers.Set(name, value)
			}
		}
		fmt.Println(IsGenuine(text(given[0]), headers, body, now))
	}
}
"""


def test_the_file_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == vectors(), "run python docs/rendering/vectors.py"


def test_there_are_genuine_and_other_vectors() -> None:
    assert {vector["genuine"] for vector in VECTORS} == {True, False}


def test_ruby_passes_the_vectors(tmp_path: Path) -> None:
    assert answers_in_ruby(tmp_path, code_under("Ruby"), HEADERS) == expected()


@pytest.mark.timeout(300)
def test_java_passes_the_vectors(tmp_path: Path) -> None:
    imports, _, rest = code_under("Java").partition("\n\n")
    (tmp_path / "Check.java").write_text(imports + JAVA + rest)  # the first class is the one that runs

    assert answers(tmp_path, "java", "Check.java") == expected()


@pytest.mark.timeout(300)
def test_c_sharp_passes_the_vectors(tmp_path: Path) -> None:
    (tmp_path / "Check.cs").write_text(code_under("C#") + CSHARP)
    answers(tmp_path, "mcs", "-r:System.Core.dll", "Check.cs")

    assert answers(tmp_path, "mono", "Check.exe") == expected()


@pytest.mark.timeout(600)
def test_go_passes_the_vectors(tmp_path: Path) -> None:
    assert answers_in_go(tmp_path, code_under("Go"), HEADERS) == expected()


def answers_in_ruby(folder: Path, code: str, headers: Iterable[str]) -> list[bool]:
    """Return the answers of a function that reads the headers with these names."""
    (folder / "check.rb").write_text(code + RUBY)
    return answers(folder, "ruby", "check.rb", *headers)


def answers_in_go(folder: Path, code: str, headers: Iterable[str]) -> list[bool]:
    """Return the answers of a function that reads the headers with these names."""
    (folder / "signature.go").write_text(code.replace("package webhooks", "package main"))
    (folder / "check.go").write_text(GO)
    return answers(folder, "go", "run", "signature.go", "check.go", *headers)


def code_under(heading: str) -> str:
    section = PAGE.partition(f"## {heading}\n")[2]
    return re.search(r"```\w+\n(.*?)```", section, re.DOTALL)[1]


def answers(folder: Path, program: str, *arguments: str) -> list[bool]:
    """Return the line printed for each vector, or skip without the program."""
    if shutil.which(program) is None:
        skip_without(f"{program} was not found")
    lines = "".join(",".join(str(vector[name]).encode().hex() for name in NAMES) + "\n" for vector in VECTORS)
    done = subprocess.run([program, *arguments], cwd=folder, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line.lower() == "true" for line in done.stdout.splitlines()]


def expected() -> list[bool]:
    return [vector["genuine"] for vector in VECTORS]
