"""The German translation is complete and compiled."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import translation

import webhooks_app
from webhooks_app.models import Delivery

from .conftest import Page, text

pytestmark = pytest.mark.only_on("sqlite")

ROOT = Path(webhooks_app.__file__).parent
CATALOGUE = ROOT / "locale" / "de" / "LC_MESSAGES" / "django.po"
FUNCTIONS = {"_", "gettext", "gettext_lazy"}
HOW_TO = "in webhooks_app: django-admin makemessages -l de --add-location file --no-wrap; django-admin compilemessages"


def compiled() -> gettext.GNUTranslations:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        return gettext.GNUTranslations(file)


def written() -> dict[str, str]:
    entries = re.findall(r'^msgid "(.+)"\nmsgstr "(.*)"$', CATALOGUE.read_text(encoding="utf-8"), re.MULTILINE)
    return {ast.literal_eval(f'"{msgid}"'): ast.literal_eval(f'"{msgstr}"') for msgid, msgstr in entries}


def marked() -> Iterator[str]:
    """Yield the texts marked for translation."""
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
                yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def test_every_marked_text_is_translated() -> None:
    untranslated = {text for text in marked() if not written().get(text)}

    assert not untranslated, HOW_TO


def test_the_compiled_catalogue_is_up_to_date() -> None:
    translations = compiled()

    assert {msgid: translations.gettext(msgid) for msgid in written()} == written(), HOW_TO


def test_placeholders_survive_the_translation() -> None:
    placeholder = re.compile(r"%\(\w+\)[sd]")

    for msgid, msgstr in written().items():
        assert sorted(placeholder.findall(msgid)) == sorted(placeholder.findall(msgstr)), msgid


@pytest.mark.parametrize(
    ("model", "words"),
    [("delivery", ("Zustellungen", "ausstehend")), ("webhook", ("Testereignis senden", "Eigentümer"))],
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
