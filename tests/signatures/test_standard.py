"""Standard Webhooks: verified by the official libraries, by node:crypto and by OpenSSL."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as PythonLibrary
from standardwebhooks.webhooks import WebhookVerificationError as PythonError

from webhooks_app.exceptions import WebhookVerificationError
from webhooks_app.receiver import verify
from webhooks_app.signatures import (
    Message,
    NativeSignature,
    StandardEd25519Signature,
    StandardSignature,
    combine,
)

from ..protocol import vector
from ..support.missing import skip_without

JAVASCRIPT = Path(__file__).parent / "javascript"
SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")

STANDARD, ED25519 = StandardSignature(), StandardEd25519Signature()
EVENT_ID = json.loads(vector.BODY)["id"]
SECRETS = [NativeSignature().new_key() for _ in range(200)]


def message(body=vector.BODY):
    return Message(EVENT_ID, "ppt.generation.completed", int(time.time()), body)


def headers_of(scheme, *keys):
    sent = message()
    return dict(scheme.headers(sent, scheme.sign(sent, keys)))


def node(script, requests):
    """Return the output of a script for these requests."""
    if shutil.which("node") is None:
        skip_without("node is not installed")
    if script == "verify.js" and not (JAVASCRIPT / "node_modules" / "standardwebhooks").exists():
        skip_without(f"the JavaScript library is not installed: npm ci --prefix {JAVASCRIPT}")
    result = subprocess.run(
        ["node", JAVASCRIPT / script],
        input=json.dumps(requests),
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(result.stdout)


def python_accepts(secret, headers):
    try:
        PythonLibrary(secret).verify(vector.BODY, headers, json_parse=False)
    except PythonError:
        return False
    return True


def test_the_python_library_verifies_every_new_secret():
    assert all(python_accepts(secret, headers_of(STANDARD, secret)) for secret in SECRETS)


def test_the_javascript_library_verifies_every_new_secret():
    requests = [
        {"secret": secret, "headers": headers_of(STANDARD, secret), "body": vector.BODY.decode()} for secret in SECRETS
    ]

    assert node("verify.js", requests) == [""] * len(SECRETS)


def test_both_libraries_verify_with_either_secret_during_a_rotation():
    new, old, other = SECRETS[:3]
    headers = headers_of(STANDARD, new, old)

    requests = [{"secret": key, "headers": headers, "body": vector.BODY.decode()} for key in (new, old, other)]

    assert [python_accepts(key, headers) for key in (new, old, other)] == [True, True, False]
    assert [not error for error in node("verify.js", requests)] == [True, True, False]


def test_both_libraries_find_v1_beside_v1a():
    secret, key, sent = SECRETS[0], ED25519.new_key(), message()
    parts = [scheme.headers(sent, scheme.sign(sent, [k])) for scheme, k in ((ED25519, key), (STANDARD, secret))]
    headers = dict(combine(parts))

    assert headers["webhook-signature"].startswith("v1a,")
    assert python_accepts(secret, headers)
    assert node("verify.js", [{"secret": secret, "headers": headers, "body": vector.BODY.decode()}]) == [""]


def signed_by_key_pair():
    """Return a whpk_ key, the signed bytes, and their signature."""
    key, sent = ED25519.new_key(), message()
    version, _, signature = ED25519.sign(sent, [key]).partition(",")
    assert version == "v1a"
    signed = f"{sent.id}.{sent.timestamp}.".encode() + sent.body
    return ED25519.verification_key(key), signed, base64.b64decode(signature, validate=True)


def test_node_verifies_v1a_with_the_public_key():
    key, signed, signature = signed_by_key_pair()

    def request(signed):
        return {
            "key": key,
            "signed": base64.b64encode(signed).decode(),
            "signature": base64.b64encode(signature).decode(),
        }

    assert node("verify_ed25519.js", [request(signed), request(signed + b" ")]) == [True, False]


def test_openssl_verifies_v1a_with_the_public_key(tmp_path):
    if shutil.which("openssl") is None:
        skip_without("openssl is not installed")
    key, signed, signature = signed_by_key_pair()
    files = {name: tmp_path / name for name in ("key", "signed", "signature")}
    files["key"].write_bytes(SPKI_PREFIX + base64.b64decode(key.removeprefix("whpk_")))
    files["signed"].write_bytes(signed)
    files["signature"].write_bytes(signature)

    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", files["key"], "-rawin"]
    result = subprocess.run(
        [*command, "-in", files["signed"], "-sigfile", files["signature"]], capture_output=True, check=False, timeout=60
    )

    assert (result.returncode, result.stdout.strip()) == (0, b"Signature Verified Successfully")


@pytest.mark.parametrize(
    ("secret", "fits"),
    [
        pytest.param(SECRETS[0], True, id="as made today"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 24).decode(), True, id="24 bytes"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 23).decode(), False, id="23 bytes"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 65).decode(), False, id="65 bytes"),
        pytest.param(base64.b64encode(b"k" * 32).decode(), False, id="no prefix"),
        pytest.param("whsec_" + base64.urlsafe_b64encode(b"\xff" * 32).decode(), False, id="URL-safe"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 32).decode().rstrip("="), False, id="not padded"),
        pytest.param("whsec_" + base64.b64encode(b"k" * 32).decode()[:-2] + "t=", False, id="another spelling"),
        pytest.param("a secret in words, long enough", False, id="words"),
    ],
)
def test_only_secrets_that_all_libraries_decode_alike_are_valid(secret, fits):
    assert (not STANDARD.problem_with_key(secret)) is fits


@pytest.mark.parametrize(
    ("scheme", "key"), [pytest.param(STANDARD, SECRETS[0], id="v1"), pytest.param(ED25519, ED25519.new_key(), id="v1a")]
)
def test_verify_accepts_only_the_request_that_was_sent(scheme, key):
    headers, public = headers_of(scheme, key), scheme.verification_key(key)

    assert verify(vector.BODY, headers, public).id == EVENT_ID
    for body, changed in (
        (vector.BODY + b" ", {}),
        (vector.BODY, {"webhook-id": "evt_other"}),
        (vector.BODY, {"webhook-timestamp": str(int(time.time()) - 60)}),
        (vector.BODY, {"webhook-signature": "v1,AAAA v1a,AAAA v1 v1a, v2,%"}),
    ):
        with pytest.raises(WebhookVerificationError):
            verify(body, {**headers, **changed}, public)


class CountingSignature(StandardSignature):
    """Counts the passes over the body."""

    def __init__(self):
        self.passes = 0

    def digest(self, key, signed):
        self.passes += 1
        return super().digest(key, signed)


@pytest.mark.parametrize(
    ("header", "passes"),
    [
        (" ".join(["v1,"] * 1000), 0),
        (" ".join(["v1,AAAA"] * 1000), 0),
        (" ".join(f"v1,{base64.b64encode(number.to_bytes(32)).decode()}" for number in range(100)), 2),
    ],
    ids=["empty", "short", "forged"],
)
def test_a_forged_header_costs_at_most_one_pass_per_key(header, passes):
    scheme = CountingSignature()
    headers = {**headers_of(STANDARD, SECRETS[0]), "webhook-signature": header}

    with pytest.raises(WebhookVerificationError):
        scheme.verify(vector.BODY, headers, SECRETS[:2])

    assert scheme.passes == passes


@pytest.mark.parametrize(("position", "is_genuine"), [(7, True), (8, False)])
def test_eight_signatures_of_a_version_are_verified(position, is_genuine):
    headers = headers_of(STANDARD, SECRETS[0])
    forged = [f"v1,{base64.b64encode(number.to_bytes(32)).decode()}" for number in range(position)]
    headers["webhook-signature"] = " ".join(["v1a,AAAA", *forged, headers["webhook-signature"]])

    with nullcontext() if is_genuine else pytest.raises(WebhookVerificationError):
        STANDARD.verify(vector.BODY, headers, SECRETS[:1])


def test_an_old_standard_request_is_refused():
    old = message()._replace(timestamp=int(time.time()) - 3600)
    headers = dict(STANDARD.headers(old, STANDARD.sign(old, SECRETS[:1])))

    with pytest.raises(WebhookVerificationError, match="seconds away"):
        verify(vector.BODY, headers, SECRETS[0])


def test_a_genuine_request_under_another_id_is_refused():
    sent = message()._replace(id="evt_other")
    headers = dict(STANDARD.headers(sent, STANDARD.sign(sent, SECRETS[:1])))

    with pytest.raises(WebhookVerificationError, match="webhook-id differs"):
        verify(vector.BODY, headers, SECRETS[0])
