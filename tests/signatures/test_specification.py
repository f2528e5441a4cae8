"""The signature of the specification."""

import hashlib
import hmac
import re

import pytest

from webhooks_app.signatures import sign, signed_headers

from ..protocol import vector


def test_sign_returns_the_published_vector():
    assert sign(vector.SECRET, vector.TIMESTAMP, vector.BODY) == vector.SIGNATURE


@pytest.mark.parametrize(
    ("secret", "body"),
    [
        pytest.param("s" * 16, b"", id="empty body"),
        pytest.param("k" * 200, b"{}", id="secret longer than a block of SHA-256"),
        pytest.param("k" * 64, b"{}", id="secret of a block"),
        pytest.param("k" * 65, b"{}", id="secret of a block and a byte"),
        pytest.param("Schlüssel-mit-Ümlaut", "{'ü'}".encode(), id="secret that is not ASCII"),
        pytest.param("whsec_c2VjcmV0IHNlY3JldA", b"\x00\xff", id="prefix and base64 are keyed as text"),
    ],
)
def test_the_key_is_the_whole_secret_in_utf8(secret, body):
    expected = hmac.new(secret.encode("utf-8"), b"1700000000." + body, hashlib.sha256).hexdigest()

    assert sign(secret, 1700000000, body) == f"sha256={expected}"


def test_the_digest_is_64_lower_case_hexadecimal_digits():
    assert re.fullmatch(r"sha256=[0-9a-f]{64}", sign("a secret of ours", 1, b"{}"))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(("another secret!!", 1700000000, b"{}"), id="secret"),
        pytest.param(("the first secret", 1700000001, b"{}"), id="timestamp"),
        pytest.param(("the first secret", 1700000000, b"{ }"), id="body"),
        pytest.param(("the first secret", 170000000, b"0.{}"), id="full stop moved"),
    ],
)
def test_any_change_changes_the_signature(changed):
    assert sign(*changed) != sign("the first secret", 1700000000, b"{}")


def test_every_delivery_has_the_four_headers_of_the_specification():
    headers = signed_headers(vector.SECRET, vector.TIMESTAMP, "ppt.generation.completed", vector.BODY)

    assert headers == (
        ("Content-Type", "application/json"),
        ("X-Webhook-Signature", vector.SIGNATURE),
        ("X-Webhook-Timestamp", "1767268800"),
        ("X-Webhook-Event", "ppt.generation.completed"),
    )


def test_a_previous_secret_signs_in_a_separate_header():
    alone = signed_headers(vector.SECRET, vector.TIMESTAMP, "file.deleted", vector.BODY)
    both = signed_headers(
        vector.SECRET, vector.TIMESTAMP, "file.deleted", vector.BODY, previous_secret=vector.PREVIOUS_SECRET
    )

    assert both == (*alone, ("X-Webhook-Signature-Previous", vector.PREVIOUS_SIGNATURE))
