"""Every route, with another account's session and identifiers, invented ones, fewer rights, and without a login."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.apps import apps
from django.conf import settings
from django.core import serializers
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver, reverse

from webhooks_app.models import ApiKey, AuditEntry, Delivery, SigningKey, Webhook
from webhooks_app.pages.actions import REPLAY as STEPS
from webhooks_app.portal import portal_url, urls
from webhooks_app.portal.actions import ACTIONS

from ..support.controls import cancelling, controls_of
from .conftest import Customer, make_customer

pytestmark = pytest.mark.django_db

INVENTED = "0" * 32
FORM = "application/x-www-form-urlencoded"
WITH_BODY = ("post", "put", "patch", "delete")
CHANGING = re.compile(r'name="(csrfmiddlewaretoken|submission)" value="[^"]+"')
SECRET = r"whsec_[\w+/]{20}|whk_\w{20}"


def names(patterns: Any) -> Iterator[str]:
    """Yield the name of every route."""
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from names(each.url_patterns)
        elif isinstance(each, URLPattern):
            assert each.name
            yield each.name


ROUTES = {
    "overview": (),
    "share": (),
    "mails": (),
    "webhooks": (),
    "webhook-new": (),
    "webhook": ("webhook",),
    "webhook-settings": ("webhook",),
    "webhook-test": ("webhook",),
    "webhook-rotate": ("webhook",),
    "replay-new": ("webhook",),
    "webhook-code": ("webhook",),
    "webhook-secret": ("webhook", "token"),
    "webhook-action": ("webhook", "pause"),
    "deliveries": (),
    "delivery": ("delivery",),
    "events": (),
    "event": ("event",),
    "replay": ("replay",),
    "replay-step": ("replay", "cancel"),
    "event-types": (),
    "event-type": ("ppt.generation.failed",),
    "activity": (),
    "keys": (),
    "key-new": (),
    "key-secret": ("key", "token"),
    "key-revoke": ("key",),
}
"""The arguments of each route. Names of fields of a customer stand for the identifier of that row."""

ELSEWHERE = {"accounts", "link", "link-damaged", "link-end"}
"""The routes without an account, which test_links.py visits."""

READ_BY = ("get", "head", "options")
METHODS = ("get", "head", "options", "post", "put", "patch", "delete", "trace")
CONFIRMATIONS = ("webhook-action", "replay-step", "key-revoke")
POSTED = {"url": "http://127.0.0.1:9000/other", "event_types": ["file.deleted"], "event_type": "file.deleted"}
POSTED |= {"name": "x", "scopes": ["webhooks:read"], "states": ["missed"], "overlap_hours": "1"}
POSTED |= {"mails": "daily"}

WITH_ROWS = [
    name for name, args in ROUTES.items() if args and args[0] in ("webhook", "delivery", "event", "replay", "key")
]
READING = [name for name in ROUTES if name not in ("webhook-new", "key-new")]


def path_of(name: str, account: Customer, rows: Customer | None) -> str:
    """Return the path of a route in the pages of an account, with the rows of a customer, or with invented ones."""
    args = []
    for each in ROUTES[name]:
        row = getattr(rows or account, each, None)
        args.append(each if row is None else row.pk if rows else f"{row.pk.partition('_')[0]}_{INVENTED}")
    return reverse(f"webhooks_portal:{name}", args=(account.user.pk, *args))


def paths_of(name: str, account: Customer, rows: Customer | None) -> list[str]:
    path = path_of(name, account, rows)
    if name == "webhook-action":
        return [path.replace("/pause/", f"/{each}/") for each in (*ACTIONS, "explode")]
    return [path.replace("/cancel/", f"/{each}/") for each in (*STEPS, "explode")] if name == "replay-step" else [path]


def everything() -> str:
    """Return all rows of the app."""
    rows = [row for model in apps.get_app_config("webhooks_app").get_models() for row in model.objects.order_by("pk")]  # type: ignore[attr-defined]
    return serializers.serialize("json", [row for row in rows if not hasattr(type(row)._meta.pk, "fields")])


def answers(client: Client, path: str) -> list[tuple[int, str]]:
    """Return the status and the page for each method. PUT and others have the form in their body, too."""
    found = [asked(client, method, path) for method in METHODS]
    return [(each.status_code, each.content.decode().replace(path, "")) for each in found]


def asked(client: Client, method: str, path: str) -> Any:
    body = {"data": urlencode(POSTED, doseq=True), "content_type": FORM} if method in WITH_BODY else {}
    return getattr(client, method)(path, **body)


def statuses(client: Client, path: str) -> set[int]:
    return {status for status, _page in answers(client, path)}


def refuses_changes(client: Client, path: str) -> bool:
    """Return True if no method that changes something is answered with a page, and the others are answered."""
    found = {method: asked(client, method, path).status_code for method in METHODS}
    refused = {302, 403, 404, 405}
    return all(status in refused | ({200} if method in READ_BY else set()) for method, status in found.items())


def test_every_route_is_walked() -> None:
    assert set(names(urls.urlpatterns)) == ROUTES.keys() | ELSEWHERE


def test_each_form_of_the_walk_changes_something_for_its_owner(amina: Customer) -> None:
    """Otherwise the walks below would prove nothing."""
    changed = {}
    for name in ROUTES:
        for path in paths_of(name, amina, amina):
            before = everything()
            with transaction.atomic():
                if amina.client.post(path, POSTED).status_code != 405:
                    changed[name] = changed.get(name, False) or everything() != before
                transaction.set_rollback(True)

    assert {name for name, is_changed in changed.items() if not is_changed} == set()
    assert len(changed) >= 9


def test_no_method_but_post_changes_anything(amina: Customer) -> None:
    before = everything()

    for name in ROUTES:
        for path in paths_of(name, amina, amina):
            for method in set(METHODS) - {"get", "head", "post"}:
                assert asked(amina.client, method, path).status_code == 405, (method, path)

    assert everything() == before


@pytest.mark.parametrize("name", READING)
def test_the_owner_sees_each_page(amina: Customer, name: str) -> None:
    response = amina.client.get(path_of(name, amina, amina))

    assert response.status_code == 200
    assert "<script>alert" not in response.content.decode()
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert response.headers["Cache-Control"] == "no-store, private"


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_page_has_two_buttons_named_cancel(amina: Customer, language: str) -> None:
    amina.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    paths = [path for name in ROUTES for path in paths_of(name, amina, amina)]
    paths = [path for path in paths if "/explode/" not in path]

    pages = {path: amina.client.get(path) for path in paths}
    names = {path: controls_of(page.text, "<header") for path, page in pages.items() if page.status_code == 200}

    refused = [path for path in paths if path not in names]  # what the replay and the webhook do not offer
    assert 0 < len(refused) < len(STEPS) + len(ACTIONS)
    actions = tuple(f"/{action}/" for action in ACTIONS)
    assert all("/replays/" in path or path.endswith(actions) for path in refused)
    assert {path: found for path, found in names.items() if len(cancelling(found)) > 1} == {}
    confirmations = [path for name in CONFIRMATIONS for path in paths_of(name, amina, amina) if path in names]
    assert {path: names[path] for path in confirmations if len(set(names[path])) < len(names[path])} == {}
    assert min(len(names[path]) for path in confirmations) > 1


def test_nothing_of_another_account_is_seen_or_changed(amina: Customer, boris: Customer) -> None:
    before = everything()
    seen = {}

    for name in ROUTES:
        for path in paths_of(name, boris, boris):  # the pages of the other account
            seen[path] = answers(amina.client, path)
    for name in WITH_ROWS:
        for path in paths_of(name, amina, boris):  # the rows of the other account on one's own pages
            seen[path] = answers(amina.client, path)

    assert {path for path, found in seen.items() if {status for status, _ in found} - {404, 405}} == set()
    assert {status for path, found in seen.items() for status, _ in found if f"/{boris.user.pk}/" in path} == {404}
    assert everything() == before


def test_foreign_and_invented_identifiers_have_the_same_answer(amina: Customer, boris: Customer) -> None:
    nobody = str(boris.user.pk + 1000)

    for name in WITH_ROWS:
        foreign, invented = paths_of(name, amina, boris), paths_of(name, amina, None)
        assert [answers(amina.client, path) for path in foreign] == [answers(amina.client, path) for path in invented]
    for name in ROUTES:
        path = path_of(name, boris, boris)
        other = path.replace(f"/{boris.user.pk}/", f"/{nobody}/", 1)
        assert answers(amina.client, path) == answers(amina.client, other)


@pytest.mark.parametrize(
    ("page", "query", "row"),
    [
        ("webhook-test", "delivery", "delivery"),
        ("deliveries", "webhook_id", "webhook"),
        ("deliveries", "replay_id", "replay"),
        ("deliveries", "q", "delivery"),
        ("deliveries", "q", "event"),
        ("events", "q", "event"),
        ("webhooks", "q", "webhook"),
    ],
)
def test_foreign_and_invented_identifiers_in_a_query_have_the_same_answer(
    amina: Customer, boris: Customer, page: str, query: str, row: str
) -> None:
    def asked_for(pk: str) -> tuple[int, str]:
        answer = amina.client.get(path_of(page, amina, amina), {query: pk})
        return answer.status_code, CHANGING.sub("", answer.text.replace(pk, ""))

    for each in (amina, boris):
        Delivery.objects.filter(pk=each.delivery.pk).update(replay=each.replay)
    own, foreign = (getattr(each, row).pk for each in (amina, boris))

    found = asked_for(foreign)

    assert found == asked_for(f"{foreign.partition('_')[0]}_{INVENTED}") != asked_for(own)
    assert not [each.pk for each in (boris.webhook, boris.delivery, boris.event) if each.pk in found[1]]


@pytest.mark.parametrize("key", ["0", "01", " 1", "x", "9" * 40, "\uff11"])
def test_other_texts_are_no_accounts(amina: Customer, key: str) -> None:
    assert amina.client.get(f"/webhooks/{key}/").status_code == 404


def test_without_a_login_everything_leads_there(amina: Customer) -> None:
    before = everything()

    for name in ROUTES:
        for path in paths_of(name, amina, amina):
            assert statuses(Client(), path) == {302}
            assert Client().get(path).headers["Location"] == f"/accounts/login/?next={path}"

    assert everything() == before


def test_a_reader_changes_nothing(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ReadOnlyOwners"
    before = everything()

    for name in ROUTES:
        for path in paths_of(name, amina, amina):
            assert refuses_changes(amina.client, path), path
    shown = amina.get("webhook", amina.webhook.pk).content.decode()

    assert everything() == before
    assert "Rotate" not in shown
    assert "Pause" not in shown


def test_a_manager_gets_no_secret(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ManagingOwners"
    before = secrets()

    refused = amina.post("webhook-action", amina.webhook.pk, "revoke-previous-secret")
    seen = everything_permitted(amina.client, amina)

    assert "may not create or replace secrets" in refused.content.decode()
    assert secrets() == before
    assert re.findall(SECRET, seen) == []


def secrets() -> list[Any]:
    """Return everything that signs requests, or that a client can log in with."""
    webhooks, keys = Webhook.objects.existing().values_list("pk"), ApiKey.objects.values_list("pk")
    return [*webhooks, *keys, *SigningKey.objects.values_list("pk", "encrypted_key", "valid_until")]


def everything_permitted(client: Client, account: Customer) -> str:
    """Visit every route as somebody who may change webhooks, except for their deletion. Return all pages."""
    paths = [path for name in ROUTES for path in paths_of(name, account, account) if not path.endswith("/delete/")]
    pages = "".join(page for path in paths for _status, page in answers(client, path))
    changes = (
        AuditEntry.objects.about(account.webhook).filter(action="webhook.changed").values_list("changes", flat=True)
    )
    assert POSTED["url"] in [each["pending_url"][1] for each in changes if "pending_url" in each]
    return pages


def test_a_right_that_was_withdrawn_is_gone_at_once(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ReadOnlyOwners"

    response = amina.post("webhook-action", amina.webhook.pk, "delete")

    amina.webhook.refresh_from_db()
    assert response.status_code == 403
    assert amina.webhook.deleted_at is None


def test_a_post_requires_the_token_of_the_form(amina: Customer) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(amina.user)

    response = client.post(amina.url("webhook-action", amina.webhook.pk, "delete"))

    assert response.status_code == 403


def test_a_user_with_several_accounts_chooses_one(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.EveryOwner"
    other = make_customer("boris")

    chosen = amina.client.get("/webhooks/").content.decode()
    switched = amina.client.get(other.url("overview")).content.decode()

    assert other.url("overview") in chosen
    assert amina.url("overview") in switched


def test_a_page_that_reads_itself_again_looks_for_no_other_accounts(amina: Customer) -> None:
    def asked(**headers: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert amina.client.get(amina.url("delivery", amina.delivery.pk), headers=headers).status_code == 200
        return sum("LIMIT 50" in query["sql"] for query in queries)

    assert (asked(), asked(**{"X-Requested-With": "fetch"})) == (1, 0)


def test_a_page_that_reads_itself_again_leaves_messages_to_the_next_visit(amina: Customer) -> None:
    address = amina.url("webhook", amina.webhook.pk)
    amina.client.post(amina.url("webhook-action", amina.webhook.pk, "pause"))

    polled = amina.client.get(address, headers={"X-Requested-With": "fetch"}).text
    visited = amina.client.get(address).text

    assert ["Paused the webhook." in page for page in (polled, visited)] == [False, True]


def test_the_only_account_needs_no_choice(amina: Customer) -> None:
    response = amina.client.get("/webhooks/")

    assert response.status_code == 302
    assert response.headers["Location"] == amina.url("overview")


def test_links_and_the_catalogue_are_exempt_from_the_login_required_middleware(amina: Customer, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    visitor, link = Client(), portal_url(amina.user)

    opened = [visitor.get(link), visitor.post(link), visitor.get(amina.url("overview"))]

    assert [each.status_code for each in opened] == [200, 302, 200]
    assert opened[1].headers["Location"] == amina.url("overview")
    assert [Client().get(path).status_code for path in ("/event-types/", "/event-types/file.uploaded/")] == [200, 200]
    for path in ("/webhooks/", *(each for name in ROUTES for each in paths_of(name, amina, amina))):
        assert Client().get(path).headers["Location"] == f"/accounts/login/?next={path}", path
