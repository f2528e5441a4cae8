"""A webhook's own headers, over the API."""

from __future__ import annotations

import base64

import pytest

from webhooks_app.encryption import decrypt
from webhooks_app.models import AuditEntry, Webhook

from ..support.rows import EVENT_TYPE, URL, make_webhook

pytestmark = pytest.mark.django_db

NEW = {"url": URL, "events": [EVENT_TYPE]}
SHOWN = "********"


def errors(answer):
    assert answer.status_code == 400
    return {path.partition(".")[0].partition("[")[0]: found for path, found in answer.json()["errors"].items()}


def stored():
    return {name: decrypt(token) for name, token in Webhook.objects.get().encrypted_headers}


@pytest.fixture
def webhook(alice):
    return make_webhook(alice, headers={"X-Tenant": "acme", "X-Route": "7"})


def test_values_are_stored_encrypted_and_shown_redacted(api):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "headers": {"X-Tenant": "acme-4711"}})

    assert answer.json()["headers"] == {"X-Tenant": SHOWN}
    assert stored() == {"X-Tenant": "acme-4711"}
    assert "acme-4711" not in str(Webhook.objects.values().get()) + str(AuditEntry.objects.values())


def test_headers_replace_all_earlier_ones_and_a_redacted_value_keeps_the_stored_one(api, webhook):
    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"headers": {"x-tenant": SHOWN, "X-New": "n"}})

    assert answer.json()["headers"] == {"x-tenant": SHOWN, "X-New": SHOWN}
    assert stored() == {"x-tenant": "acme", "X-New": "n"}


def test_a_changed_value_is_audited_without_the_value(api, webhook):
    api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"headers": {"X-Tenant": "another", "X-Route": "7"}})

    (entry,) = AuditEntry.objects.filter(action="webhook.changed")
    before, after = entry.changes["header_fingerprints"]
    assert [text.partition(" ")[0] for text in after] == ["X-Tenant", "X-Route"]
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)


def test_repeating_the_headers_changes_nothing(api, webhook):
    api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"headers": {"X-Tenant": "acme", "X-Route": SHOWN}})

    assert not AuditEntry.objects.filter(action="webhook.changed").exists()


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        pytest.param("http://127.0.0.1:9000/another?path", True, id="path"),
        pytest.param("http://127.0.0.1:9001/hook", False, id="port"),
        pytest.param("http://127.0.0.2:9000/hook", False, id="host"),
        pytest.param("https://127.0.0.1:9000/hook", False, id="scheme"),
    ],
)
def test_another_scheme_host_or_port_drops_the_headers(api, webhook, url, kept):
    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"url": url})

    assert answer.status_code == 200
    webhook.refresh_from_db()
    webhook.switch_url()
    assert bool(api.call("GET", f"/v1/webhooks/{webhook.pk}").json()["headers"]) is kept


def test_headers_given_together_with_another_host_are_kept(api, webhook):
    change = {"url": "http://127.0.0.2:9000/hook", "headers": {"X-Tenant": "given again"}}

    api.call("PATCH", f"/v1/webhooks/{webhook.pk}", change)
    assert stored() == {"X-Tenant": "acme", "X-Route": "7"}  # for the URL in use
    webhook.refresh_from_db()
    webhook.switch_url()

    assert stored() == {"X-Tenant": "given again"}


def test_a_redacted_value_is_not_kept_for_another_host(api, webhook):
    change = {"url": "http://127.0.0.2:9000/hook", "headers": {"X-Tenant": SHOWN}}

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", change)

    assert "give it again" in errors(answer)["headers"][0]
    assert stored() == {"X-Tenant": "acme", "X-Route": "7"}


def test_basic_authentication_is_one_of_the_headers(api, webhook):
    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"basic_auth": {"username": "us", "password": "pä:ss"}})

    assert list(answer.json()["headers"]) == ["X-Tenant", "X-Route", "Authorization"]
    assert "basic_auth" not in answer.json()
    encoded = stored()["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(encoded) == "us:pä:ss".encode()

    api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"basic_auth": None})

    assert list(stored()) == ["X-Tenant", "X-Route"]


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Transfer-Encoding", "TE", "Connection", "Keep-Alive", "Upgrade", "Expect"),
        *("Proxy-Authorization", "Proxy-Anything", "Content-Type", "User-Agent", "Accept-Encoding"),
        *("X-Webhook-Signature", "X-Webhook-Anything", "webhook-id", "WEBHOOK-SIGNATURE"),
        *("", "two words", "colon:", "ümlaut", "line\nbreak", "x" * 101),
    ],
)
def test_a_reserved_or_malformed_name_is_refused(api, name):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "headers": {name: "value"}})

    assert errors(answer)["headers"]
    assert not Webhook.objects.exists()


VALUES = ["", "a\r\nX-Other: b", "tab\tinside", "\x7f", "ümlaut", " left", "right ", "x" * 4097, 5, None]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_a_value_other_than_printable_ascii_is_refused(api, value):
    answer = api.call("POST", "/v1/webhooks", {**NEW, "headers": {"X-Tenant": value}})

    assert errors(answer)["headers"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({"headers": {"X-A": "1", "x-a": "2"}}, "headers", id="one name in two cases"),
        pytest.param({"headers": {f"X-{n}": "1" for n in range(21)}}, "headers", id="too many"),
        pytest.param({"headers": [["X-A", "1"]]}, "headers", id="a list"),
        pytest.param({"headers": {"X-A": SHOWN}}, "headers", id="nothing stored"),
        pytest.param({"basic_auth": {"username": "a:b", "password": "c"}}, "basic_auth", id="colon in the name"),
        pytest.param({"basic_auth": {"username": "a"}}, "basic_auth", id="no password"),
        pytest.param({"basic_auth": {"username": "a", "password": "\x1f"}}, "basic_auth", id="control character"),
        pytest.param(
            {"headers": {"authorization": "x"}, "basic_auth": {"username": "a", "password": "b"}},
            "basic_auth",
            id="given in two ways",
        ),
    ],
)
def test_other_invalid_headers_are_refused(api, body, field):
    answer = api.call("POST", "/v1/webhooks", {**NEW, **body})

    assert errors(answer)[field]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        pytest.param({"password": "two"}, "username", id="only the password"),
        pytest.param({"username": "you"}, "password", id="only the user name"),
    ],
)
def test_a_part_of_basic_authentication_is_refused_and_changes_nothing(api, alice, given, missing):
    webhook = make_webhook(alice, basic_auth=("me", "one"))

    answer = api.call("PATCH", f"/v1/webhooks/{webhook.pk}", {"basic_auth": given})

    assert answer.status_code == 400
    assert f"basic_auth.{missing}" in answer.json()["errors"]
    assert stored() == {"Authorization": "Basic bWU6b25l"}
