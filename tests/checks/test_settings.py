"""Every setting has its check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_origin

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import override_settings
from django.utils import translation

from webhooks_app.checks.contents import CONTENT_CHECKS
from webhooks_app.checks.settings import RANGES
from webhooks_app.conf import Settings, setting_types
from webhooks_app.filters.operators import Equal
from webhooks_app.retry import DelaysPolicy, ExtendedPolicy
from webhooks_app.signatures import NativeSignature
from webhooks_app.transport.memory import MemoryTransport

from .conftest import Found

Check = Callable[..., Found]

NUMBERS = [name for name, expected in setting_types().items() if expected in (int, float)]
TEXTS = [name for name, expected in setting_types().items() if expected is str or get_origin(expected)]


def test_the_settings_of_the_tests_are_fine(found: Check) -> None:
    assert found() == {}


def test_the_defaults_are_fine(found: Check) -> None:
    defaults = {name: getattr(Settings, name.removeprefix("WEBHOOKS_")) for name in setting_types()}

    with override_settings(**defaults):
        assert found() == {}


@pytest.mark.parametrize("name", setting_types())
@pytest.mark.parametrize("value", [None, object(), {1: 1}, [None], b"bytes"], ids=lambda value: type(value).__name__)
def test_a_value_of_a_wrong_type_is_an_error(found: Check, name: str, value: Any) -> None:
    with override_settings(**{name: value}):
        message = found()["webhooks_app.E001"]

    assert name in message.msg
    assert message.hint


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_out_of_range_is_an_error(found: Check, name: str) -> None:
    least, most = RANGES[name.removeprefix("WEBHOOKS_")]

    for value in (-1, int(least) - 1, int(most) + 1, 10**12):
        with override_settings(**{name: value}):
            assert name in found()["webhooks_app.E002"].msg


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_nan_is_out_of_range(found: Check, value: float) -> None:
    with override_settings(WEBHOOKS_TIMEOUT_SECONDS=value):
        assert "webhooks_app.E002" in found()


def test_every_number_has_a_range_and_every_text_a_content_check() -> None:
    assert {f"WEBHOOKS_{name}" for name in RANGES} == set(NUMBERS)
    assert {f"WEBHOOKS_{name}" for name in CONTENT_CHECKS} == set(TEXTS)


@pytest.mark.parametrize("value", [True, "yes", 1.5], ids=repr)
def test_a_boolean_is_not_a_number(found: Check, value: Any) -> None:
    with override_settings(WEBHOOKS_BATCH_SIZE=value):
        assert "webhooks_app.E001" in found()


class NamelessTransport(MemoryTransport):
    name = ""


class Negative(DelaysPolicy):
    name = "negative"
    delays_seconds = (1, -5)


class Endless(DelaysPolicy):
    name = "endless"
    delays_seconds = (1,) * 100


class Sooner(ExtendedPolicy):
    """Has the name of a built-in policy."""

    delays_seconds = (1, 2)


class Weaker(NativeSignature):
    """Has the name of a built-in scheme."""


class Looser(Equal):
    """Has the name of a built-in operator."""


class Neither(Equal):
    name = "$not"


class Bare(Equal):
    name = "equals"


WRONG = [
    pytest.param("ALLOWED_NETWORKS", ["10.0.0.0/40"], "E003", id="network with an impossible prefix"),
    pytest.param("ALLOWED_NETWORKS", ["10.0.0.1/8"], "E003", id="network with host bits"),
    pytest.param("ALLOWED_NETWORKS", ["example.com"], "E003", id="name for a network"),
    pytest.param("ALLOWED_NETWORKS", "10.0.0.0/8", "E001", id="string for a list"),
    pytest.param("REFUSED_NETWORKS", ["10.0.0.1/8"], "E003", id="refused network with host bits"),
    pytest.param("ENCRYPTION_KEYS", ["too short"], "E004", id="no Fernet key"),
    pytest.param("ENCRYPTION_KEYS", [Fernet.generate_key().decode(), "ü" * 44], "E004", id="second key broken"),
    pytest.param("RETENTION_DAYS_BY_TYPE", {"file.deleted": 0}, "E015", id="no days"),
    pytest.param("RETENTION_DAYS_BY_TYPE", {"file.deleted": 36_501}, "E015", id="days without end"),
    pytest.param("RETENTION_DAYS_BY_TYPE", {"file.delete": 30}, "W010", id="unknown type"),
    pytest.param("RETENTION_DAYS_BY_TYPE", {"file.deleted": "30"}, "E001", id="days as text"),
    pytest.param("HEALTH", {"failing_request": 3}, "E043", id="unknown threshold"),
    pytest.param("HEALTH", {"slow_seconds": -1}, "E043", id="negative threshold"),
    pytest.param("EGRESS_PROXY", "proxy.example.com:3128", "E005", id="proxy without a scheme"),
    pytest.param("EGRESS_PROXY", "socks5://proxy.example.com:1080", "E005", id="proxy of another kind"),
    pytest.param("EGRESS_PROXY", "http://proxy.example.com:99999", "E005", id="proxy with an impossible port"),
    pytest.param("CA_BUNDLE", "/no/such/file.pem", "E006", id="missing bundle"),
    pytest.param("CA_BUNDLE", str(Path(__file__)), "E006", id="bundle without certificates"),
    pytest.param("TRANSPORT", "pigeon", "E007", id="unknown transport"),
    pytest.param("TRANSPORT", "curl", "E007", id="the former transport"),
    pytest.param("TRANSPORT", "pathlib.Path", "E007", id="a class that isn't a transport"),
    pytest.param("TRANSPORT", "tests.checks.test_settings.NamelessTransport", "E007", id="a transport without a name"),
    pytest.param("TRANSPORT", "webhooks_app.transport.BaseTransport", "E007", id="an abstract transport"),
    pytest.param("RETRY_POLICIES", [], "E008", id="no retry policy"),
    pytest.param("RETRY_POLICIES", ["never mind"], "E008", id="unknown retry policy"),
    pytest.param("RETRY_POLICIES", ["pathlib.Path"], "E008", id="a class that isn't a retry policy"),
    pytest.param("RETRY_POLICIES", ["extended", "extended"], "E008", id="retry policy named twice"),
    pytest.param("RETRY_POLICIES", ["tests.checks.test_settings.Negative"], "E008", id="negative delay"),
    pytest.param("RETRY_POLICIES", ["tests.checks.test_settings.Endless"], "E008", id="too many attempts"),
    pytest.param("RETRY_POLICIES", ["tests.checks.test_settings.Sooner"], "E008", id="name of a built-in policy"),
    pytest.param("SIGNATURES", ["quantum"], "E020", id="unknown signature scheme"),
    pytest.param("SIGNATURES", ["pathlib.Path"], "E020", id="a class that is no signature scheme"),
    pytest.param("SIGNATURES", ["native", "native"], "E020", id="signature scheme named twice"),
    pytest.param("SIGNATURES", ["tests.checks.test_settings.Weaker"], "E020", id="name of a built-in scheme"),
    pytest.param("FILTER_OPERATORS", ["$regex"], "E024", id="unknown filter operator"),
    pytest.param("FILTER_OPERATORS", ["$eq", "$eq"], "E024", id="filter operator named twice"),
    pytest.param("FILTER_OPERATORS", ["tests.checks.test_settings.Looser"], "E024", id="name of a built-in operator"),
    pytest.param("FILTER_OPERATORS", ["tests.checks.test_settings.Neither"], "E024", id="name of a combining operator"),
    pytest.param("FILTER_OPERATORS", ["tests.checks.test_settings.Bare"], "E024", id="operator without a dollar sign"),
    pytest.param("ORDERS", ["none", "newest first"], "E025", id="unknown order"),
    pytest.param("ORDERS", ["key", "key"], "E025", id="order named twice"),
    pytest.param("RECOVERIES", ["manual", "never"], "E041", id="unknown recovery"),
    pytest.param("RECOVERIES", ["manual", "manual"], "E041", id="recovery named twice"),
    pytest.param("RECOVERIES", ["automatic"], "E041", id="no manual recovery"),
    pytest.param("API_AUTHENTICATION", ["pathlib.Path"], "E044", id="a class that is no authentication"),
    pytest.param("API_AUTHENTICATION", ["no.such.Class"], "E044", id="authentication that cannot be imported"),
    pytest.param("API_RATE", "120", "E009", id="rate without a period"),
    pytest.param("TEST_RATE", "10/fortnight", "E009", id="unknown period"),
    pytest.param("VERIFICATION_RATE", "0/min", "E009", id="nothing allowed"),
    pytest.param("PROBE_RATE", "60/minutes", "E009", id="period in the plural"),
    pytest.param("ADDRESS_PROBE_RATE", "5", "E009", id="rate of an address without a period"),
    pytest.param("LEASE_SECONDS", 30, "E010", id="lease as short as the timeout"),
    pytest.param("TIMEOUT_SECONDS", 44, "E010", id="timeout nearly as long as the lease"),
    pytest.param("METRICS_TOKEN", "a" * 15, "E016", id="short token"),
    pytest.param("METRICS_TOKEN", "a token with spaces in it", "E016", id="token that no header takes"),
    pytest.param("PORTAL_CSP", "default-src 'self'\n", "E033", id="policy of two lines"),
    pytest.param("PORTAL_CSP", "frame-ancestors *", "E033", id="policy about frames"),
    pytest.param("PORTAL_FRAME_ANCESTORS", "none", "E034", id="ancestors without quotes"),
    pytest.param("PORTAL_FRAME_ANCESTORS", "https://a.example; script-src *", "E034", id="another directive"),
    pytest.param("PORTAL_FRAME_ANCESTORS", "", "E034", id="no ancestors"),
    pytest.param("USER_AGENT", "Acme\r\nX-Admin: yes", "E045", id="sender of two lines"),
    pytest.param("USER_AGENT", "Bäcker/1", "E045", id="sender outside ASCII"),
    pytest.param("USER_AGENT", "a" * 121, "E045", id="long sender"),
    pytest.param("USER_AGENT", "Acme ", "E045", id="sender with a space at its end"),
    pytest.param("EGRESS_ADDRESSES", ["203.0.113.300"], "E003", id="address that does not exist"),
    pytest.param("SITE_URL", "app.example.com", "E042", id="site without a scheme"),
    pytest.param("SITE_URL", "https://app.example.com/?a=1", "E042", id="site with a query"),
    pytest.param("SITE_URL", "javascript://app.example.com", "E042", id="site with another scheme"),
    pytest.param("FAILING_NOTICE_MINUTES", -1, "E002", id="notice before the failure"),
    pytest.param("TIMEOUTS", 10, "W001", id="unknown name"),
]


@pytest.mark.parametrize(("name", "value", "expected"), WRONG)
def test_an_invalid_value_is_found(found: Check, name: str, value: Any, expected: str) -> None:
    with override_settings(**{f"WEBHOOKS_{name}": value}):
        messages = found()

    assert list(messages) == [f"webhooks_app.{expected}"]
    assert name in messages[f"webhooks_app.{expected}"].msg
    assert messages[f"webhooks_app.{expected}"].hint


RIGHT = [
    pytest.param("REFUSED_NETWORKS", ["198.51.0.0/16", "2001:db8:64::/96"], id="refused networks"),
    pytest.param("ALLOWED_NETWORKS", ["10.0.0.0/8", "::1", "192.0.2.1"], id="networks and addresses"),
    pytest.param("ENCRYPTION_KEYS", [Fernet.generate_key().decode()], id="key"),
    pytest.param("ENCRYPTION_KEYS", [Fernet.generate_key().decode(), "SECRET_KEY"], id="key before the derived one"),
    pytest.param("EGRESS_PROXY", "http://user:p%40ss@proxy.example.com:3128", id="proxy"),
    pytest.param("EGRESS_ADDRESSES", ["203.0.113.7", "2001:db8:7::/64"], id="addresses of the sender"),
    pytest.param("USER_AGENT", "Acme-Webhooks/1.0 (+https://docs.acme.example)", id="sender"),
    pytest.param("USER_AGENT", "a" * 120, id="longest sender"),
    pytest.param("TRANSPORT", "requests", id="transport by name"),
    pytest.param("TRANSPORT", "webhooks_app.transport.memory.MemoryTransport", id="transport by path"),
    pytest.param("RETRY_POLICIES", ("tests.support.retries.Never", "specification"), id="retry policies"),
    pytest.param("RETRY_POLICIES", ["webhooks_app.retry.ExtendedPolicy"], id="built-in policy by path"),
    pytest.param("SIGNATURES", ["native"], id="signature scheme"),
    pytest.param("METRICS_TOKEN", "Zm9v-_.~+/1234567==", id="token"),
    pytest.param("PORTAL_CSP", "", id="no policy"),
    pytest.param("PORTAL_FRAME_ANCESTORS", "'none'", id="no frame"),
    pytest.param("SITE_URL", "https://app.example.com/de/", id="site with a path"),
    pytest.param("SITE_URL", "http://localhost:8000", id="site with a port"),
    pytest.param("FAILING_NOTICE_MINUTES", 0, id="notice at once"),
    pytest.param("PORTAL_FRAME_ANCESTORS", "'self' https://a.example:8443 https://*.b.example", id="ancestors"),
    pytest.param("API_AUTHENTICATION", ["rest_framework.authentication.SessionAuthentication"], id="sessions"),
    pytest.param("API_RATE", "1/day", id="rate"),
    pytest.param("API_RATE", "", id="no limit"),
    pytest.param("TIMEOUT_SECONDS", 40, id="timeout within the lease"),
]


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_a_valid_value_passes(found: Check, name: str, value: Any) -> None:
    with override_settings(**{f"WEBHOOKS_{name}": value}):
        assert found() == {}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("WEBHOOKS_TIMEOUT", "WEBHOOKS_TIMEOUT_SECONDS"),
        ("WEBHOOKS_ALOW_HTTP", "WEBHOOKS_ALLOW_HTTP"),
        ("WEBHOOK_BATCH_SIZE", "WEBHOOKS_BATCH_SIZE"),
        ("WEBHOOK_ENCRYPTION_KEY", "WEBHOOKS_ENCRYPTION_KEYS"),
        ("WEBHOOKS_SECRET_OVERLAP", "WEBHOOKS_SECRET_OVERLAP_SECONDS"),
        ("WEBHOOKS_ENCRYPTION_KEY", "WEBHOOKS_ENCRYPTION_KEYS"),
    ],
)
def test_a_misspelt_name_is_found_with_a_suggestion(found: Check, name: str, near: str) -> None:
    with override_settings(**{name: 1}):
        message = found()["webhooks_app.W001"]

    assert name in message.msg
    assert near in str(message.hint)


@pytest.mark.parametrize("name", ["BATCH_SIZE", "WEBHOOK_OF_MINE", "MY_WEBHOOKS_TIMEOUT"])
def test_settings_of_others_are_ignored(found: Check, name: str) -> None:
    with override_settings(**{name: object()}):
        assert found() == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("WEBHOOKS_ENCRYPTION_KEYS", ["a-secret-key"], id="broken key"),
        pytest.param("WEBHOOKS_ENCRYPTION_KEYS", "a-secret-key", id="key for a list"),
        pytest.param("WEBHOOKS_ENCRYPTION_KEYS", [b"a-secret-key"], id="bytes"),
        pytest.param("WEBHOOKS_EGRESS_PROXY", "ftp://user:a-secret-key@proxy:1", id="password of a proxy"),
        pytest.param("WEBHOOKS_METRICS_TOKEN", "a-secret-key", id="short token"),
    ],
)
def test_a_secret_is_not_repeated(found: Check, name: str, value: Any) -> None:
    with override_settings(**{name: value}):
        messages = found()

    assert messages
    assert "a-secret-key" not in "".join(f"{message.msg}{message.hint}" for message in messages.values())


@pytest.mark.parametrize("name", setting_types())
@pytest.mark.parametrize("value", [None, 7, [object()]], ids=["None", "7", "list of objects"])
def test_no_value_breaks_the_checks(found: Check, name: str, value: Any) -> None:
    with override_settings(**{name: value}):
        found(deploy=True)


def test_an_error_stops_manage_py() -> None:
    with override_settings(WEBHOOKS_BATCH_SIZE=0), pytest.raises(SystemCheckError, match="WEBHOOKS_BATCH_SIZE"):
        call_command("check", tags=["webhooks"])


def test_a_span_longer_than_the_time_after_which_webhooks_are_disabled_is_an_error(found: Check) -> None:
    with override_settings(WEBHOOKS_AUTO_DISABLE_AFTER_DAYS=1, WEBHOOKS_AUTO_DISABLE_MIN_SPAN_HOURS=24):
        assert found() == {}
    with override_settings(WEBHOOKS_AUTO_DISABLE_AFTER_DAYS=1, WEBHOOKS_AUTO_DISABLE_MIN_SPAN_HOURS=25):
        assert "24 hours" in str(found()["webhooks_app.E014"].hint)


def test_a_body_smaller_than_the_largest_envelope_is_an_error(found: Check) -> None:
    with override_settings(WEBHOOKS_EMIT_BODY_BYTES=256 * 1024):
        assert "at least 266,240" in str(found()["webhooks_app.E040"].hint)


@pytest.mark.parametrize("transport", ["curl", "auto"])
def test_the_hint_for_a_former_transport_names_the_remedy(found: Check, transport: str) -> None:
    with override_settings(WEBHOOKS_TRANSPORT=transport):
        hint = found()["webhooks_app.E007"].hint

    assert "Remove the setting: the default transport, native, replaces curl" in str(hint)


def test_messages_are_english_whatever_the_language_of_the_project(found: Check, settings: Any) -> None:
    settings.WEBHOOKS_BATCH_SIZE = 0

    with translation.override("de"):
        message = found()["webhooks_app.E002"]

    assert message.msg == "WEBHOOKS_BATCH_SIZE is 0."
    assert str(message.hint).startswith("Use a value from 1 to ")
