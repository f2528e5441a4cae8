"""The German translation is complete and compiled."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone, translation

import webhooks_app
from tests.support.rows import URL, end_deliveries
from webhooks_app.emission import emit
from webhooks_app.models import Delivery, DeliveryAttempt, Webhook
from webhooks_app.reasons import ReasonText

from .conftest import DATA, Page, shown_messages, text

pytestmark = pytest.mark.only_on("sqlite")

ROOT = Path(webhooks_app.__file__).parent
CATALOGUE = ROOT / "locale" / "de" / "LC_MESSAGES" / "django.po"
FUNCTIONS = {"_", "gettext", "gettext_lazy", "gettext_noop"}
HOW_TO = "in webhooks_app: django-admin makemessages -l de --add-location file --no-wrap; django-admin compilemessages"


ENGLISH = re.compile(r"\b(the|is|are|of|and|not|which|that|with|this|from|has|have|no|to|cannot)\b", re.IGNORECASE)
"""Words of English sentences that German lacks."""


def compiled() -> gettext.GNUTranslations:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def written() -> dict[str, str]:
    """Return the translations by text, without those that have a context."""
    source = re.sub(r"^msgctxt .*\n.*\n.*$", "", CATALOGUE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    entries = re.findall(r'^msgid "(.+)"\nmsgstr "(.*)"$', source, re.MULTILINE)
    return {ast.literal_eval(f'"{msgid}"'): ast.literal_eval(f'"{msgstr}"') for msgid, msgstr in entries}


def marked() -> Iterator[str]:
    """Yield the texts marked for translation."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
                yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def test_every_marked_text_is_translated() -> None:
    translations = written()

    untranslated = {text for text in marked() if not translations.get(text)}

    assert not untranslated, HOW_TO


def test_the_compiled_catalogue_is_up_to_date() -> None:
    translations = compiled()

    assert {msgid: translations.gettext(msgid) for msgid in written()} == written(), HOW_TO


def test_placeholders_survive_the_translation() -> None:
    placeholder = re.compile(r"%\(\w+\)[sd]|%%")

    for msgid, msgstr in written().items():
        assert sorted(placeholder.findall(msgid)) == sorted(placeholder.findall(msgstr)), msgid


@pytest.mark.parametrize(
    ("model", "words"),
    [("delivery", ("Zustellungen", "ausstehend")), ("webhook", ("Testereignis senden", "Konto"))],
)
def test_the_admin_is_translated_to_german(
    superuser: Page, delivery: Delivery, model: str, words: tuple[str, ...]
) -> None:
    superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"

    page = text(superuser.get(model))

    assert [word for word in words if word not in page] == []


def test_names_of_states_are_translated() -> None:
    with translation.override("de"):
        assert str(Delivery.State.GIVEN_UP.label) == "aufgegeben"


def test_the_note_of_admin_themes_about_errors_is_german() -> None:
    with translation.override("de"):
        assert (
            translation.gettext("Please correct the errors below.")
            == "Bitte die unten aufgeführten Fehler korrigieren."
        )


@pytest.fixture
def german(superuser: Page) -> Page:
    """The console in German."""
    superuser.client.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    return superuser


def prose(page: Any, start: str, end: str) -> str:
    """Return the text of a part of a page, without code and values."""
    html = text(page).partition(start)[2].partition(end)[0]
    assert html, start
    html = re.sub(r"<(pre|code|script)\b.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(html)).strip()


def assert_german(text: str, *words: str) -> None:
    assert ENGLISH.findall(text) == [], text
    assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param(
            "https://10.0.0.1/hook", "Die Adresse 10.0.0.1 ist nicht erlaubt (ein privates Netz).", id="address"
        ),
        pytest.param("http://localhost:9000/", "Der Host 'localhost' ist ein lokaler Name.", id="local name"),
        pytest.param("https://example.com/{id}", "Prozentkodierung, wie %7B für {.", id="percent sign"),
    ],
)
def test_the_refusal_of_a_url_is_german(german: Page, url: str, words: str) -> None:
    form = {"audience": "every", "event_types": ["file.deleted"], "signatures": ["native"], "accepted_statuses": "200"}

    saved = german.post("webhook", "add", **form, url=url)
    checked = german.post("webhook", "check_url", url=url)

    assert_german(prose(saved, 'id="id_url_error"', "</ul>"), words)
    assert_german(prose(checked, "<span", "</span>"), words)


def test_the_findings_of_the_doctor_are_german(german: Page, settings: Any) -> None:
    settings.DEBUG = True  # The messages of system checks for deployment are those of Django's developers, in English.

    findings = prose(german.get("operations"), '<h2 id="findings">', "</section>")

    assert_german(findings, "Es läuft kein Worker-Prozess", "internen Testadressen werden abgelehnt")


def test_the_command_finds_the_same_in_english(db: None) -> None:
    found = StringIO()

    with translation.override("de"), pytest.raises(CommandError):
        call_command("webhooks_doctor", "--json", stdout=found)

    assert "No worker process is running" in found.getvalue()


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(ReasonText("handshake_timed_out", seconds=1), id="second"),
        pytest.param(ReasonText("url_port", port="'22'", default="443"), id="URL"),
        pytest.param(ReasonText("challenge_not_json", problem=ReasonText("answer_not_json")), id="two"),
    ],
)
def test_the_failure_of_a_delivery_is_german(german: Page, delivery: Delivery, message: str) -> None:
    DeliveryAttempt.objects.create(
        delivery=delivery, number=1, result="address_refused", message=message, started_at=timezone.now(), url=URL
    )
    end_deliveries(state="given_up", last_result="address_refused")

    page = german.get("delivery", "change", delivery.pk)

    assert_german(prose(page, "<h2>Versuch", "</section>"), "Das war der letzte von")


@pytest.mark.parametrize("page", ["change", "history"])
def test_the_history_of_a_webhook_is_a_verlauf(german: Page, webhook: Webhook, page: str) -> None:
    shown = german.get("webhook", page, webhook.pk).content.decode()

    assert "Verlauf" in shown
    assert "Geschichte" not in shown


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param({"paused_at": timezone.now()}, "Pausiert seit", id="paused"),
        pytest.param({"status": "pending"}, "Wartet auf die Überprüfung des Webhooks.", id="pending"),
    ],
)
def test_the_hold_of_a_delivery_is_german(german: Page, delivery: Delivery, state: dict[str, Any], words: str) -> None:
    Webhook.objects.update(**state)

    page = german.get("delivery", "change", delivery.pk)

    assert_german(prose(page, '<p role="status"', "</section>"), words)


def test_the_hold_by_an_order_is_german(german: Page, delivery: Delivery) -> None:
    Webhook.objects.update(order="webhook")
    _, held = (emit("file.deleted", DATA, owner=delivery.webhook.owner).deliveries.get() for _ in range(2))

    page = german.get("delivery", "change", held.pk)

    assert_german(prose(page, '<p role="status"', "</section>"), "Wartet auf eine frühere Zustellung")


def test_a_refused_operation_is_explained_in_german(german: Page, delivery: Delivery) -> None:
    answer = german.act("enable", delivery.webhook, confirmed=True)

    assert_german(" ".join(shown_messages(answer)), "ist nicht deaktiviert; es gibt nichts zu aktivieren.")


def test_refused_choices_are_explained_in_german(german: Page, delivery: Delivery) -> None:
    form = {"url": delivery.webhook.url, "event_types": ["file.deleted"], "signatures": ["native", "standard"]}

    page = german.post("webhook", "change", delivery.webhook_id, **form, headers="Host: a")

    assert_german(prose(page, 'id="id_signatures_error"', "</ul>"), "Erneuern Sie zuerst das Geheimnis")


@pytest.mark.parametrize("page", [("webhook", "add"), ("eventtypes",)], ids="-".join)
def test_the_choices_of_a_webhook_are_described_in_german(german: Page, page: tuple[str, ...]) -> None:
    described = prose(german.get(*page), "webhook.failing", "delivery.given_up")

    assert_german(described, "Ein Webhook ist gestört", "Ein gestörter Webhook funktioniert wieder")
