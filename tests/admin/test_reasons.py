"""Stored texts are translated in the console and stay English in the API."""

from __future__ import annotations

import ast
import json
import pickle
import re
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.utils import translation

import webhooks_app
from webhooks_app.event_types import registry
from webhooks_app.exceptions import InvalidEndpointError, UnknownEventTypeError, WebhookStateError
from webhooks_app.models import Replay, Webhook, fields
from webhooks_app.models.fields import translated
from webhooks_app.operations import replays
from webhooks_app.operations.actors import PROJECT
from webhooks_app.pages import forms
from webhooks_app.protocol.handshake import refusal_of_answer
from webhooks_app.reasons import TEMPLATES, ReasonText, as_stored, code_of, from_stored
from webhooks_app.transport import errors
from webhooks_app.transport.answer import NO_STATUS_LINE, TOO_LARGE
from webhooks_app.transport.endpoint import parse_endpoint
from webhooks_app.transport.refused_addresses import REFUSED_IPV4, REFUSED_IPV6

from ..api.conftest import client_of
from ..support.rows import make_webhook, plan_replay
from .conftest import Page, text

pytestmark = pytest.mark.django_db

SINCE = ReasonText("all_given_up", days=5.0, number="57", since="2026-01-29 00:00")

ERRORS = [
    errors.address_refused("hooks.example.com"),
    errors.name_unknown("hooks.example.com"),
    errors.name_timed_out("hooks.example.com", 5),
    errors.name_not_looked_up("hooks.example.com"),
    errors.not_connected("hooks.example.com:443"),
    errors.connection_lost(),
    errors.connection_lost(was_kept=True),
    errors.proxy_failed(),
    *(errors.certificate_refused(code) for code in (0, *errors.CERTIFICATE_PROBLEMS)),
    errors.handshake_failed(),
    errors.handshake_timed_out(10),
    errors.connect_timed_out(10),
    errors.timed_out(30),
    errors.invalid_response(""),
    errors.internal_error(),
    errors.handshake_timed_out(1),
    errors.connect_timed_out(1),
    errors.timed_out(1),
    errors.name_timed_out("hooks.example.com", 1),
    errors.invalid_response(NO_STATUS_LINE),
    errors.invalid_response(TOO_LARGE),
]


REFUSED_URLS = [
    *("example.com", "https://example.com/" + "x" * 2048, "https://exämple.com/", "https://example.com\\a"),
    *("https://example.com/#a", "http://example.com/", "ftp://example.com/", "https://a:b@example.com/"),
    *("https://[::1", "https://example.com:22/", "https://example.com:/", "https://127.1/", "https://10.0.0.1/"),
    *("https://8.8.8.8/", "https://[fe80::1]/", "https://[4000::1]/", "https://example/", "https://-a.example.com/"),
    *("https://a.local/", "https://localhost/", "https://xn--a.example.com/", "https://example.com/{a}"),
]


@pytest.fixture
def german(monkeypatch):
    """Translations independent of the catalogue."""
    words = {
        "Disabled by the operator.": "Vom Betreiber deaktiviert.",
        TEMPLATES["all_given_up"].many: "Seit %(days)s Tagen: %(number)s seit %(since)s UTC.",
    }
    monkeypatch.setattr(fields, "gettext", lambda template: words.get(template, template))


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        pytest.param(ReasonText("disabled_by_operator"), "Vom Betreiber deaktiviert.", id="fixed"),
        pytest.param(SINCE, "Seit 5 Tagen: 57 seit 2026-01-29 00:00 UTC.", id="with numbers"),
        pytest.param("Under repair (100% of it).", "Under repair (100% of it).", id="a person's own words"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_stored_text_is_translated_when_it_is_shown(german, stored, shown):
    assert translated(stored) == shown


def test_every_code_is_used():
    code = "".join(
        path.read_text() for path in Path(webhooks_app.__file__).parent.rglob("*.py") if path.name != "reasons.py"
    )
    built = re.compile(
        r"(status|redirect)_not_(200|2xx)|address_\w+|replay_(counting|ready|running|paused|stopped|done|cancelled)"
        r"|problem_already_(open|acknowledged|ignored)"
    )

    assert [name for name in TEMPLATES if f'"{name}"' not in code and not built.fullmatch(name)] == []


def test_every_reason_of_the_code_has_a_template():
    missing = []
    for path in Path(webhooks_app.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = ("ReasonText", "_refused", "_error") if path.parent.name == "transport" else ("ReasonText",)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names:
                codes = [argument.value for argument in node.args[-1:] if isinstance(argument, ast.Constant)]
                missing += [name for name in codes if name not in TEMPLATES]

    assert missing == []


def refusals():
    """Yield the argument of each refusal in the code."""
    for path in Path(webhooks_app.__file__).parent.rglob("*.py"):
        raised = [node.exc for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)]
        for error in raised:
            if getattr(getattr(error, "func", None), "id", "") in ("WebhookStateError", "AlreadyInStateError"):
                yield error.args[0]


def test_every_refusal_has_a_code():
    found = list(refusals())

    assert len(found) > 15
    others = [ast.unparse(each) for each in found if getattr(getattr(each, "func", None), "id", "") != "ReasonText"]
    assert others == ["replay.state_reason"]  # stored with its code


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SINCE, id="parameters"),
        pytest.param(ReasonText("challenge_not_json", problem=ReasonText("answer_empty")), id="nested"),
        pytest.param(ReasonText("name_unknown", host=":a"), id="mark in a parameter"),
        pytest.param("Under repair.", id="text"),
        pytest.param(":unreachable", id="text like a code"),
        pytest.param("", id="empty"),
    ],
)
def test_a_reason_survives_its_storage(text):
    read = from_stored(as_stored(text, 500))

    assert (read, code_of(read), pickle.loads(pickle.dumps(read))) == (text, code_of(text), text)


@pytest.mark.parametrize(
    "stored", [":of_tomorrow", ':name_unknown {"name":"a"}', ":name_unknown {", ":name_unknown []"]
)
def test_an_unknown_reason_is_shown_as_it_is_stored(stored):
    assert from_stored(stored) == translated(from_stored(stored)) == stored


def test_a_reason_that_is_too_long_is_stored_as_a_cut_text():
    assert as_stored(ReasonText("name_unknown", host="a" * 600), 500) == ("The name " + "a" * 600)[:500]


def test_an_error_keeps_the_code_of_its_reason():
    assert code_of(str(WebhookStateError(ReasonText("webhook_deleted", id="wh_0")))) == "webhook_deleted"


@pytest.mark.parametrize("verb", ["start", "resume", "pause", "cancel"])
def test_a_refusal_of_a_replay_is_translated(owner, verb):
    replay = plan_replay(make_webhook(owner))
    Replay.objects.update(state="done")

    with pytest.raises(WebhookStateError) as refused:
        getattr(replays, verb)(replay, actor=PROJECT)
    with translation.override("de"):
        shown = translated(str(refused.value))

    assert shown.startswith(f"Die Nachsendung {replay.pk}")
    assert not {"is", "only", "can", "done", "replay"} & set(re.findall(r"\w+", shown))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"file_id": {}, "wrong": 1}, ["wrong: ist kein Feld dieses Typs; die Felder sind", "user_id: fehlt."]),
        ({"file_id": "\0"}, ["file_id: enthält NUL."]),
        ({"file_id": 10**400}, ["ist eine ganze Zahl mit mehr als 1023 Bit"]),
    ],
    ids=["fields", "NUL", "number"],
)
def test_problems_of_test_data_are_translated(data, shown):
    with translation.override("de"):
        form = forms.TestEventForm({"event_type": "file.deleted", "event_data": json.dumps(data)}, event_types=registry)

        problems = " ".join(form.errors["event_data"])

    assert [words for words in shown if words not in problems] == []


@pytest.mark.parametrize("name", ["file.delete", "nothing.like_it"])
def test_an_unknown_event_type_is_translated(name):
    with pytest.raises(UnknownEventTypeError) as unknown:
        registry.get(name)

    with translation.override("de"):
        shown = translated(str(unknown.value))
    assert not {"Unknown", "Did", "Known"} & set(shown.split())


def test_a_problem_of_json_in_a_filter_is_translated(owner, superuser: Page, settings):
    settings.LANGUAGE_CODE = "de"
    webhook = make_webhook(owner)
    form = {"url": webhook.url, "event_types": webhook.event_types, "filter": '{"file_id": "\\u0000"}'}

    answer = superuser.post("webhook", "change", webhook.pk, **form)

    assert "file_id: enthält NUL." in text(answer)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.message[:40])
def test_an_error_of_the_transport_is_translated(error):
    with translation.override("de"):
        assert translated(error.message) != error.message


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_the_refusal_of_a_url_is_translated(url):
    with pytest.raises(InvalidEndpointError) as refused:
        parse_endpoint(url, refused_networks=[ip_network("8.8.8.0/24")])

    with translation.override("de"):
        assert translated(str(refused.value)) != str(refused.value)


@pytest.mark.parametrize("reason", sorted({reason for _, reason in (*REFUSED_IPV4, *REFUSED_IPV6)}))
def test_every_kind_of_a_refused_address_is_translated(reason):
    with translation.override("de"):
        assert translated(reason) != reason


BROKEN_CHUNKS = [
    *(ReasonText("chunk_without_size"), ReasonText("chunk_too_long")),
    *(ReasonText("chunk_line_too_long"), ReasonText("trailer_invalid")),
]


@pytest.mark.parametrize(
    ("body", "coding", "problem"),
    [
        pytest.param(b"", "", "", id="empty"),
        pytest.param(b"\x1f\x8b", "", "", id="gzip"),
        pytest.param(b"{", "br", "", id="compressed"),
        pytest.param(b"\xef\xbb\xbf{}", "", "", id="byte order mark"),
        pytest.param(b"\xff\xfe{", "", "", id="UTF-16"),
        pytest.param(b'{"challenge": NaN}', "", "", id="NaN"),
        pytest.param(b"\xc3", "", "", id="not UTF-8"),
        pytest.param(b"{", "", errors.BODY_TOO_LONG, id="too long"),
        pytest.param(b"{", "", errors.BODY_TOO_SHORT, id="too short"),
        *(pytest.param(b"{", "", broken, id=broken) for broken in BROKEN_CHUNKS),
        pytest.param(b"[" * 100_000, "", "", id="nested"),
        pytest.param(b"OK", "", "", id="no JSON"),
        pytest.param(b"[]", "", "", id="no object"),
        pytest.param(b"{}", "", "", id="no challenge"),
        pytest.param(b'{"challenge": 1}', "", "", id="wrong challenge"),
    ],
)
def test_the_refusal_of_a_handshake_is_translated(body, coding, problem):
    refusal = refusal_of_answer("abc", body, content_encoding=coding, body_problem=problem)

    with translation.override("de"):
        shown = translated(refusal)
    assert not {"The", "the", "is", "Answer"} & set(shown.split())


def test_the_console_shows_the_reason_of_a_webhook_translated(german, superuser: Page, owner):
    webhook = make_webhook(owner, status="disabled")
    Webhook.objects.filter(pk=webhook.pk).update(status_reason=ReasonText("disabled_by_operator"))

    assert "Vom Betreiber deaktiviert." in text(superuser.get("webhook", "changelist"))
    assert "Vom Betreiber deaktiviert." in text(superuser.get("webhook", "change", webhook.pk))


@pytest.mark.parametrize("path", ["/v1/webhooks/wh_0", "/v1/nothing", "/v1/webhooks?limit=x"])
def test_the_api_answers_in_english(owner, path):
    client = client_of(owner)

    with translation.override("de"):
        german = client.call("GET", path, **{"Accept-Language": "de"})
        english = client.call("GET", path, **{"Accept-Language": "en"})

    assert german.content == english.content
    assert german.headers["Content-Language"] == "en"


def test_errors_of_fields_are_in_english(owner):
    answer = client_of(owner).call("POST", "/v1/webhooks", {}, **{"Accept-Language": "de"})

    assert answer.json()["errors"]["url"] == ["This field is required."]
