"""Pages that show a secret once, and logs of requests with secrets."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connections

import webhooks_app
from webhooks_app.encryption import Masked
from webhooks_app.models import ApiKey, Webhook

from .conftest import SECRET, Page, text

pytestmark = pytest.mark.only_on("sqlite")

TEMPLATES = Path(webhooks_app.__file__).parent / "templates"
SHOWN = 'id="secret"'
CREDENTIALS = ("the value of a header", "the password of a user")
WEBHOOK = {"audience": "one", "url": "https://receiver.example.com/", "event_types": ["file.deleted"]}
OVERRIDE = """{{% extends "{base}" %}}
{{% block content %}}{{{{ nothing }}}}{{{{ secret.nothing }}}}{{{{ item.nothing.at_all }}}}
{{{{ adminform.form.secret.value.x }}}}{{{{ adminform.form.headers.value.x }}}}{{{{ adminform.form.cleaned_data.x }}}}
{{{{ adminform.form.basic_password.value.x }}}}
{{% if nothing.x %}}x{{% endif %}}{{{{ block.super }}}}{{% endblock %}}"""


def new_key(page: Page, owner: Any) -> Any:
    return page.client.post(
        "/admin/webhooks_app/apikey/add/", {"scopes": ["webhooks:read"], "audience": "one", "owner": owner.pk}
    )


def new_webhook(page: Page, owner: Any) -> Any:
    return page.client.post("/admin/webhooks_app/webhook/add/", {**WEBHOOK, "owner": owner.pk})


def secret_on(page: Any) -> str:
    (secret,) = re.findall(r'id="secret"[^>]*>([^<]+)<', page.text)
    return str(secret)


@pytest.mark.parametrize(("create", "model"), [(new_key, ApiKey), (new_webhook, Webhook)], ids=["key", "webhook"])
def test_a_reload_after_creation_creates_nothing_and_shows_nothing(
    superuser: Page, owner: Any, create: Any, model: Any
) -> None:
    created = create(superuser, owner)
    shown, reloaded = superuser.client.get(created["Location"]), superuser.client.get(created["Location"])

    secret = secret_on(shown)
    assert (created.status_code, shown.status_code, reloaded.status_code) == (302, 200, 200)
    assert secret not in reloaded.text
    assert model.objects.count() == 1


@pytest.mark.parametrize(
    ("model", "form"), [("apikey", {"scopes": ["webhooks:read"], "audience": "one"}), ("webhook", WEBHOOK)], ids=str
)
def test_a_form_sent_twice_creates_one_row_and_shows_its_secret(
    superuser: Page, owner: Any, model: str, form: dict[str, Any]
) -> None:
    path = f"/admin/webhooks_app/{model}/add/"
    (token,) = re.findall(r'name="submission" value="([^"]+)"', superuser.client.get(path).text)
    form = {**form, "owner": owner.pk, "submission": token}

    first, second = superuser.client.post(path, form), superuser.client.post(path, form)

    assert first["Location"] == second["Location"]
    assert secret_on(superuser.client.get(second["Location"]))
    assert {"apikey": ApiKey, "webhook": Webhook}[model].objects.count() == 1


def test_the_page_leads_back_to_the_list(superuser: Page, owner: Any) -> None:
    page = superuser.client.get(new_webhook(superuser, owner).url)

    links = re.findall(r'<a href="/admin/webhooks_app/webhook/">([^<]+)</a>', text(page).partition('id="content"')[2])

    assert [each.strip() for each in links] == ["All webhooks"]


def test_a_form_sent_again_after_its_secret_was_shown_creates_another_row(superuser: Page, owner: Any) -> None:
    form = {**WEBHOOK, "owner": owner.pk, "submission": "token"}
    superuser.client.post("/admin/webhooks_app/webhook/add/", form, follow=True)

    superuser.client.post("/admin/webhooks_app/webhook/add/", form)

    assert Webhook.objects.count() == 2


def test_a_rotation_sent_twice_shows_the_new_secret(superuser: Page, webhook: Webhook) -> None:
    form = {name: field.value() for name, field in _fields(superuser.act("rotate_secret", webhook))}
    path = f"/admin/webhooks_app/webhook/{webhook.pk}/act/rotate_secret/"

    first, second = (superuser.client.post(path, {**form, "confirmed": "yes"}) for _ in range(2))

    assert first["Location"] == second["Location"]
    assert secret_on(superuser.client.get(second["Location"])) == Webhook.objects.get().prepared_key("native").key


def _fields(page: Any) -> list[Any]:
    form = page.context["form"]
    return [(name, form[name]) for name in form.fields]


def test_a_page_with_a_secret_belongs_to_the_session_that_created_it(superuser: Page, owner: Any) -> None:
    location = new_key(superuser, owner)["Location"]

    assert SHOWN not in Page(superuser.user).client.get(location).text
    assert SHOWN in superuser.client.get(location).text


def test_a_secret_in_the_session_is_encrypted(superuser: Page, owner: Any) -> None:
    location = new_webhook(superuser, owner)["Location"]

    stored = [str(session.get_decoded()) for session in Session.objects.all()]
    assert Webhook.objects.get().secret in superuser.client.get(location).text
    assert not any("whsec_" in each for each in stored)


def test_a_secret_is_shown_only_for_a_while(superuser: Page, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    location = new_key(superuser, owner)["Location"]
    monkeypatch.setattr("webhooks_app.pages.shown_once.time.time", lambda: 4e9)

    assert SHOWN not in superuser.client.get(location).text


def test_a_refused_form_does_not_show_the_typed_secret(superuser: Page, owner: Any) -> None:
    typed = {"secret": SECRET, "basic_auth": "me", "basic_password": CREDENTIALS[1]}

    answer = superuser.post("webhook", "add", url="ftp://example.com", **typed, owner=owner.pk)

    assert [value for value in (SECRET, CREDENTIALS[1]) if value in text(answer)] == []


def test_a_short_secret_has_one_error(superuser: Page, owner: Any) -> None:
    answer = superuser.post("webhook", "add", **WEBHOOK, secret="short", owner=owner.pk)

    assert list(answer.context["adminform"].form.errors) == ["secret"]
    assert len(answer.context["adminform"].form.errors["secret"]) == 1


def test_the_repr_of_a_secret_is_masked(owner: Any) -> None:
    _, key = ApiKey.objects.make(owner=owner)
    webhook = Webhook(owner=owner, url=WEBHOOK["url"])
    webhook.secret = SECRET

    assert [repr(key), repr(webhook.secret)] == ["'********'"] * 2
    assert isinstance(key, Masked)


@pytest.fixture
def overridden(settings: Any) -> None:
    """Templates of a project with undefined variables, for which Django logs the context."""
    pages = ("admin/webhooks_app/shown_once.html", "admin/webhooks_app/webhook/change_form.html")
    overrides = {name: OVERRIDE.format(base=f"ours/{name}") for name in pages}
    for name in pages:
        source = next(path for path in TEMPLATES.rglob("*.html") if path.as_posix().endswith(name))
        overrides[f"ours/{name}"] = source.read_text()
    template = {**settings.TEMPLATES[0], "APP_DIRS": False}
    template["OPTIONS"] = {
        **template["OPTIONS"],
        "loaders": [
            ("django.template.loaders.locmem.Loader", overrides),
            "django.template.loaders.app_directories.Loader",
        ],
    }
    settings.TEMPLATES = [template]


@pytest.mark.parametrize("templates", ["ours", "a host's"])
def test_no_log_at_debug_has_a_secret(
    superuser: Page,
    owner: Any,
    templates: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        connections["default"], "force_debug_cursor", True
    )  # so that statements are logged with their values
    if templates != "ours":
        request.getfixturevalue("overridden")
    for logger in ("", "django", "django.template", "webhooks_app"):
        caplog.set_level(logging.DEBUG, logger=logger)
    key = secret_on(superuser.client.get(new_key(superuser, owner)["Location"]))
    header, password = CREDENTIALS
    typed = {"secret": SECRET, "headers": f"X-Key: {header}", "basic_auth": "me", "basic_password": password}
    superuser.post("webhook", "add", **WEBHOOK, **typed, owner=owner.pk)
    superuser.post("webhook", "add", url="ftp://example.com", **typed, owner=owner.pk)
    superuser.post("webhook", "add", **WEBHOOK, owner=owner.pk)
    made = [webhook.secret for webhook in Webhook.objects.all()]
    superuser.act("rotate_secret", Webhook.objects.first(), confirmed=True)

    formatter = logging.Formatter("%(message)s")
    logs = "\n".join(formatter.format(record) for record in caplog.records)
    assert "Exception while resolving variable" in logs
    assert any(record.name == "django.db.backends" for record in caplog.records)
    for secret in (key, SECRET, *CREDENTIALS, *made, *(each.secret for each in Webhook.objects.all())):
        assert str(secret) not in logs
