"""Hosts change the pages as the guide says: by variables, templates of the same names, and subclasses of the views."""

from __future__ import annotations

import re
import types
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from webhooks_app.portal import portal_url

from ..docs.pages import DOCS, Block, blocks_of
from .conftest import Customer, make_customer
from .test_routes import READING, path_of

pytestmark = pytest.mark.django_db

PAGE = "guides/customers-pages.md"
TEMPLATES = Path(__file__).parents[2] / "webhooks_app" / "templates" / "webhooks_app" / "portal"
HOST = """<!DOCTYPE html><html><head><title>{% block title %}{% endblock %} of Acme</title>
{% block head %}<link rel="icon" href="acme.svg">{% endblock %}</head>
<body><header>Acme</header>{% block content %}{% endblock %}</body></html>"""


def block_with(text: str) -> Block:
    (found,) = (block for block in blocks_of(PAGE) if text in block.code)
    return found


def style(name: str) -> str:
    return Path(str(finders.find(f"webhooks_app/{name}"))).read_text()


def test_there_are_at_most_ten_variables_and_the_guide_has_each() -> None:
    variables = set(re.findall(r"(--[\w-]+):", style("portal.css")))

    assert len(variables) <= 10
    assert variables == set(re.findall(r"`(--[\w-]+)`", (DOCS / PAGE).read_text()))
    assert set(re.findall(r"var\((--[\w-]+)", style("portal.css"))) == variables


def test_the_guide_has_each_template() -> None:
    listed = re.findall(r"`(\w+\.html)`", (DOCS / PAGE).read_text().partition("| template in")[2])

    assert {path.name for path in TEMPLATES.glob("*.html")} - {"base.html"} <= set(listed)


@pytest.fixture
def templates(tmp_path: Path, settings: Any) -> Path:
    """A directory of templates that Django searches first."""
    changed = deepcopy(settings.TEMPLATES)
    changed[0]["DIRS"] = [tmp_path]
    settings.TEMPLATES = changed
    folder = tmp_path / "webhooks_app" / "portal"
    folder.mkdir(parents=True)
    return folder


def test_the_pages_are_in_the_frame_of_the_host(amina: Customer, templates: Path) -> None:
    (templates.parents[1] / "base.html").write_text(HOST)
    (templates / "base.html").write_text(block_with('{% extends "base.html" %}').code)

    for name in ("overview", "webhooks", "deliveries", "events", "event-types", "keys"):
        page = amina.get(name).text
        assert "<header>Acme</header>" in page
        assert re.search(r"<title>[^<]+ · Webhooks of Acme</title>", page), page[:500]
        assert page.count("<h1>") == page.count("portal.css") == page.count("acme.svg") == 1


def test_each_template_is_replaced_by_its_name(amina: Customer, templates: Path, settings: Any) -> None:
    names = {path.name for path in TEMPLATES.glob("*.html")} - {"base.html", "page.html"}  # which the others extend
    for name in names:
        (templates / name).write_text(f"{name} of the host")

    seen = {amina.client.get(path_of(name, amina, amina)).text for name in READING}
    seen.add(amina.get("webhook-new").text)
    seen.add(Client().get(portal_url(amina.user)).text)
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ReadOnlyOwners"
    seen.add(amina.get("webhook-new").text)
    make_customer("boris")
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.EveryOwner"
    seen.add(amina.client.get("/webhooks/").text)

    assert seen == {f"{name} of the host" for name in names}


def test_a_subclass_of_a_view_replaces_the_page(amina: Customer, settings: Any) -> None:
    view = block_with("class OurWebhookListPage")
    urls = block_with("OurWebhookListPage.as_view()")
    module = types.ModuleType("urls_of_the_guide")
    exec("from django.urls import include, path\n" + view.code + urls.code, vars(module))
    settings.ROOT_URLCONF = module

    page = amina.get("webhooks").text

    assert "<h1>Integrations</h1>" in page
    assert amina.webhook.pk in page
    assert amina.get("webhook", amina.webhook.pk).status_code == 200
