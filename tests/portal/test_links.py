"""Links to the customers' pages: opened once, for one owner, with limited rights, and useless afterwards."""

from __future__ import annotations

import logging
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django import VERSION
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core import mail
from django.db import connections
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone
from django.utils.log import AdminEmailHandler
from django.views.debug import ExceptionReporter

from webhooks_app.exceptions import InvalidOwnerError
from webhooks_app.maintenance.retention import delete_expired
from webhooks_app.models import ApiKey, AuditEntry, PortalLink, Webhook
from webhooks_app.operations.portal_links import open_link
from webhooks_app.owners import UserOwners
from webhooks_app.portal import portal_url, revoke_portal_links
from webhooks_app.portal.visits import COOKIE, set_cookie

from .conftest import Customer
from .test_routes import (
    ROUTES,
    SECRET,
    WITH_ROWS,
    answers,
    everything,
    everything_permitted,
    paths_of,
    refuses_changes,
    secrets,
)

pytestmark = pytest.mark.django_db

ALL = ("read", "manage", "secrets")
FRAME = {"Sec-Fetch-Dest": "iframe"}
ANCESTOR = "https://app.example.com"


def opened(url: str, *, client: Client | None = None, framed: bool = False) -> Client:
    """Return a client that has opened a link by its button."""
    client = client or Client(headers=FRAME if framed else None)
    assert client.get(url).status_code == 200
    assert client.post(url).status_code == 302
    return client


def replaced_secret_key(settings: Any) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another one"


def expired(settings: Any) -> None:
    PortalLink.objects.update(expires_at=timezone.now())


def revoked(settings: Any) -> None:
    assert revoke_portal_links() == 1


def inactive(settings: Any) -> None:
    get_user_model().objects.update(is_active=False)


def deleted(settings: Any) -> None:
    get_user_model().objects.exclude(username="amina").delete()


def lost(settings: Any) -> None:
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.Nobodys"


ENDS = [expired, revoked, replaced_secret_key, inactive, deleted, lost]


def test_a_link_opens_the_pages_once(amina: Customer) -> None:
    url = portal_url(amina.user, page=f"webhooks/{amina.webhook.pk}/")
    client = Client()

    scanned = [Client().get(url), Client().head(url)]
    page = client.get(url)
    response = client.post(url)

    assert {each.status_code for each in scanned} == {200}
    assert "You can see the webhooks, but not change them." in page.text
    assert response.headers["Location"] == amina.url("webhook", amina.webhook.pk)
    assert client.get(response.headers["Location"]).status_code == 200
    assert client.get(url).headers["Location"] == response.headers["Location"]
    other = Client()
    other.cookies["webhooks_portal_probe_token"] = "0" * 32
    assert other.post(url, follow=True).status_code == 404
    assert other.get(amina.url("overview")).status_code == 302


def test_the_page_of_a_link_leaks_nothing_to_others(amina: Customer) -> None:
    response = Client().get(portal_url(amina.user))

    assert response.headers["Referrer-Policy"] == "strict-origin"
    assert response.headers["X-Robots-Tag"] == "noindex"
    assert response.headers["Cache-Control"] == "no-store, private"
    assert response.headers["Content-Security-Policy"].endswith("; frame-ancestors 'none'")
    assert response.headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.long
def test_a_leaked_link_leads_nowhere_after_its_end(amina: Customer, settings: Any, end: Any) -> None:
    user = get_user_model().objects.create_user("clara")
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.EveryOwner"
    url = portal_url(amina.user, user=user, rights=ALL)
    client = opened(url)
    assert client.get(amina.url("overview")).status_code == 200
    end(settings)
    before = everything()

    for name in ROUTES:
        for path in paths_of(name, amina, amina):
            found = answers(client, path)
            assert {status for status, _ in found} == {403}, path
            assert amina.webhook.url not in "".join(page for _, page in found)
    assert client.get("/webhooks/").status_code == 403
    assert [client.get(url).status_code, client.post(url, follow=True).status_code] == [404, 404]
    assert everything() == before


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_an_unopened_link_leads_nowhere_after_its_end(amina: Customer, settings: Any, end: Any) -> None:
    user = get_user_model().objects.create_user("clara")
    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.EveryOwner"
    url = portal_url(amina.user, user=user, rights=ALL)
    client = Client()
    client.get(url)
    end(settings)

    assert [client.get(url).status_code, client.post(url).status_code] == [404, 404]
    assert COOKIE not in client.cookies


@pytest.mark.long
def test_nothing_of_another_account_is_seen_or_changed(amina: Customer, boris: Customer) -> None:
    client = opened(portal_url(amina.user, rights=ALL))
    nobody = str(boris.user.pk + 1000)
    before = everything()

    for name in ROUTES:
        for path in paths_of(name, boris, boris):
            found = answers(client, path)
            assert {status for status, _ in found} == {404}, path
            assert found == answers(client, path.replace(f"/{boris.user.pk}/", f"/{nobody}/", 1))
    for name in WITH_ROWS:
        foreign, invented = paths_of(name, amina, boris), paths_of(name, amina, None)
        found = [answers(client, path) for path in foreign]
        assert {status for each in found for status, _ in each} <= {404, 405}
        assert found == [answers(client, path) for path in invented]

    assert everything() == before


@pytest.mark.parametrize("rights", [(), ("read",)], ids=["default", "read"])
@pytest.mark.long
def test_a_link_for_reading_changes_nothing(amina: Customer, rights: tuple[str, ...]) -> None:
    client = opened(portal_url(amina.user, **({"rights": rights} if rights else {})))
    before = everything()

    for name in ROUTES:
        for path in paths_of(name, amina, amina):
            assert refuses_changes(client, path), path
    shown = client.get(amina.url("webhook", amina.webhook.pk)).text

    PortalLink.objects.update(data={})  # the messages of refusals
    assert everything() == before
    assert "Rotate" not in shown


@pytest.mark.long
def test_a_link_for_managing_gives_no_secret(amina: Customer) -> None:
    client, before = opened(portal_url(amina.user, rights=("read", "manage"))), secrets()

    seen = everything_permitted(client, amina)

    assert secrets() == before
    assert re.findall(SECRET, seen) == []


def test_a_link_grants_no_more_than_its_user_may_do(amina: Customer, settings: Any) -> None:
    client = opened(portal_url(amina.user, user=amina.user, rights=ALL))
    path = amina.url("webhook-action", amina.webhook.pk, "pause")
    assert client.get(path).status_code == 200

    settings.WEBHOOKS_OWNERS = "tests.portal.conftest.ReadOnlyOwners"

    assert client.get(path).status_code == 403
    assert client.get(amina.url("overview")).status_code == 200


def test_a_change_by_link_is_audited(amina: Customer) -> None:
    url = portal_url(amina.user, rights=("manage",))
    opened(url).post(amina.url("webhook-action", amina.webhook.pk, "pause"))
    opened(portal_url(amina.user, user=amina.user, rights=("manage",))).post(
        amina.url("webhook-action", amina.webhook.pk, "resume")
    )

    link = PortalLink.objects.earliest("created_at")
    entries = AuditEntry.objects.filter(via="link").order_by("pk")
    assert [(each.action, each.actor_name) for each in entries] == [
        ("portal_link.opened", f"link {link.pk}"),
        ("webhook.paused", f"link {link.pk}"),
        ("portal_link.opened", "amina"),
        ("webhook.resumed", "amina"),
    ]
    assert "/link/" in url


def test_only_links_of_the_given_owner_and_user_are_revoked(amina: Customer, boris: Customer) -> None:
    mine, users, others = portal_url(amina.user), portal_url(amina.user, user=boris.user), portal_url(boris.user)

    assert revoke_portal_links(owner=amina.user, user=boris.user) == 1
    assert [Client().get(url).status_code for url in (mine, users, others)] == [200, 404, 200]
    assert revoke_portal_links(owner=amina.user) == 1
    assert [Client().get(url).status_code for url in (mine, others)] == [404, 200]


def test_visitors_can_leave(amina: Customer) -> None:
    client = opened(portal_url(amina.user))
    assert "/webhooks/link/end/" in client.get(amina.url("overview")).text

    response = client.post("/webhooks/link/end/")

    assert response.status_code == 200
    assert client.cookies[COOKIE].value == ""
    assert not PortalLink.objects.exists()
    assert AuditEntry.objects.latest("pk").action == "portal_link.revoked"


def test_a_user_with_a_link_keeps_the_own_accounts(amina: Customer, boris: Customer) -> None:
    client = opened(portal_url(boris.user), client=amina.client)

    assert client.get(amina.url("overview")).status_code == 200
    assert client.get(boris.url("overview")).status_code == 200
    assert client.get("/webhooks/").headers["Location"] == amina.url("overview")
    assert client.get(boris.url("webhook-new")).status_code == 403


def test_the_accounts_of_a_visitor_are_the_one_of_the_link(amina: Customer) -> None:
    assert opened(portal_url(amina.user)).get("/webhooks/").headers["Location"] == amina.url("overview")


def test_without_cookies_the_link_is_kept_for_a_new_tab(amina: Customer) -> None:
    url = portal_url(amina.user)
    client = Client(headers=FRAME)
    client.get(url)
    client.cookies.clear()

    response = client.post(url)

    assert response.status_code == 403
    assert f'<a href="{url}" target="_blank" rel="noopener noreferrer">' in response.text
    opened(url)


def test_a_frame_gets_partitioned_cookies_and_may_be_shown(amina: Customer, settings: Any) -> None:
    settings.WEBHOOKS_PORTAL_FRAME_ANCESTORS = ANCESTOR
    url = portal_url(amina.user)
    client = Client(headers=FRAME)

    page, response = client.get(url), client.post(url)
    overview = client.get(amina.url("overview"))
    framed_login = amina.client.get(amina.url("overview"))

    for name in ("webhooks_portal_probe_token", COOKIE):
        written = client.cookies[name].OutputString()
        for part in ("HttpOnly", "Path=/webhooks/", "SameSite=None", "Secure", "Partitioned", "Max-Age=3600"):
            assert part in written.split("; "), written
    for each in (page, response, overview):
        assert each.headers["Content-Security-Policy"].endswith(f"; frame-ancestors {ANCESTOR}") or each is response
        assert "X-Frame-Options" not in each.headers or each is response
    assert "Open in a new tab" in page.text
    assert framed_login.headers["X-Frame-Options"] == "DENY"
    assert framed_login.headers["Content-Security-Policy"].endswith("; frame-ancestors 'none'")
    assert framed_login.cookies.get("csrftoken") is None


def test_a_frame_shows_what_is_refused_or_missing(amina: Customer, boris: Customer, settings: Any) -> None:
    settings.WEBHOOKS_PORTAL_FRAME_ANCESTORS = ANCESTOR
    client = opened(portal_url(amina.user), framed=True)

    refused, *missing = (
        client.get(amina.url(name, *args))
        for name, *args in (
            ("webhook-new",),
            ("webhook", boris.webhook.pk),
            ("webhook", "wh_" + "0" * 32),
            ("webhook-action", amina.webhook.pk, "explode"),
        )
    )
    missing.append(client.post(amina.url("webhook-action", amina.webhook.pk, "explode")))
    missing.append(client.post(amina.url("replay-step", amina.replay.pk, "explode")))

    assert [refused.status_code, *(each.status_code for each in missing)] == [403, 404, 404, 404, 404, 404]
    assert all("There is no such page" in each.text for each in missing)
    assert re.sub('value="\\w+"', "", missing[0].text) == re.sub('value="\\w+"', "", missing[1].text)
    assert not [each for each in (refused, *missing) if "X-Frame-Options" in each.headers]


@pytest.mark.parametrize(
    ("policy", "ancestors", "expected"),
    [
        pytest.param("", ANCESTOR, (None, "DENY"), id="own policy"),
        pytest.param("", "'none'", (None, "DENY"), id="own policy without frames"),
        pytest.param(
            "default-src 'self'", "'self'", ("default-src 'self'; frame-ancestors 'self'", "SAMEORIGIN"), id="self"
        ),
    ],
)
def test_both_headers_about_frames_agree(
    amina: Customer, settings: Any, policy: str, ancestors: str, expected: tuple[str | None, str | None]
) -> None:
    settings.WEBHOOKS_PORTAL_CSP, settings.WEBHOOKS_PORTAL_FRAME_ANCESTORS = policy, ancestors

    response = Client(headers=FRAME).get(portal_url(amina.user))

    assert (response.headers.get("Content-Security-Policy"), response.headers.get("X-Frame-Options")) == expected


def test_a_tab_gets_a_cookie_for_this_site_only(amina: Customer) -> None:
    client = opened(portal_url(amina.user), client=Client())

    assert client.cookies[COOKIE]["samesite"] == "Lax"
    assert "Partitioned" not in client.cookies[COOKIE].OutputString()
    assert client.get(amina.url("overview"), headers=FRAME).headers["X-Frame-Options"] == "DENY"


def test_a_session_of_a_frame_that_ended_offers_a_new_tab(amina: Customer) -> None:
    response = Client(headers=FRAME).get(amina.url("overview"))

    assert response.status_code == 403
    assert f'href="{amina.url("overview")}" target="_blank"' in response.text


@pytest.mark.parametrize("framed", [False, True], ids=["tab", "frame"])
def test_each_post_needs_the_token_and_the_origin(amina: Customer, framed: bool) -> None:
    url, headers = portal_url(amina.user, rights=ALL), FRAME if framed else {}
    client = Client(enforce_csrf_checks=True, headers=headers)
    pause = amina.url("webhook-action", amina.webhook.pk, "pause")

    def post(path: str, token: str, **more: str) -> HttpResponse:
        return client.post(path, {"csrfmiddlewaretoken": token}, headers={**headers, **more})  # type: ignore[return-value]

    token = token_in(client.get(url))
    assert post(url, "").status_code == 403
    assert post(url, "a" * 32).status_code == 403
    assert post(url, token, Origin="https://evil.example").status_code == 403
    assert post(url, token, Origin="null").status_code == 403
    assert post(url, token, Origin="http://testserver").status_code == 302
    own = token_in(client.get(pause))
    assert post(pause, token).status_code == 403
    assert post(pause, "").status_code == 403
    assert post(pause, own, Origin=ANCESTOR).status_code == 403
    assert Webhook.objects.get(pk=amina.webhook.pk).paused_at is None
    assert post(pause, own, Origin="http://testserver").status_code == 302
    assert Webhook.objects.get(pk=amina.webhook.pk).paused_at is not None
    assert ("csrftoken" in client.cookies) is not framed


def token_in(response: Any) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', response.text)
    assert found is not None
    return found[1]


def test_a_frame_shows_new_secrets_and_messages_without_a_cookie_of_django(amina: Customer) -> None:
    client = opened(portal_url(amina.user, rights=ALL), framed=True)

    page = client.post(amina.url("key-new"), {"name": "x", "scopes": ["webhooks:read"]}, follow=True)
    paused = client.post(amina.url("webhook-action", amina.webhook.pk, "pause"), follow=True)

    assert "whk_" in page.text
    assert ApiKey.objects.filter(name="x").get().created_by is None
    assert "Paused the webhook." in paused.text
    assert "Paused the webhook." not in client.get(amina.url("overview")).text
    assert set(client.cookies) == {COOKIE, "webhooks_portal_probe_token"}
    assert "whk_" not in str(PortalLink.objects.get().data)


class Broken(UserOwners):
    def is_active(self, owner: Any) -> bool:
        raise RuntimeError("The directory of accounts cannot be reached.")


def told_about(records: Any, settings: Any) -> str:
    """Return what the log has of some requests, and the mails to the administrators about them."""
    settings.ADMINS = ["admin@example.com"] if VERSION >= (6, 0) else [("Admin", "admin@example.com")]
    handler = AdminEmailHandler(include_html=True)
    for record in records:
        handler.emit(record)
    assert len(mail.outbox) >= len(records)
    mails = [f"{each.subject} {each.body} {each.alternatives}" for each in mail.outbox]  # type: ignore[attr-defined]
    return "\n".join([*mails, *(f"{each.getMessage()} {getattr(each, 'request', '')!r}" for each in records)])


def test_no_session_is_stored_or_logged_or_reported(amina: Customer, caplog: Any, settings: Any) -> None:
    caplog.set_level(logging.DEBUG)
    client = opened(portal_url(amina.user, rights=ALL))
    client.raise_request_exception = False
    session = client.cookies[COOKIE].value
    client.get(amina.url("overview"))
    client.get("/webhooks/none/")
    assert session not in everything()
    request = RequestFactory().get(amina.url("overview"), headers={"Cookie": f"{COOKIE}={session}"})
    request.user = AnonymousUser()  # an error in a middleware, before the page
    in_middleware = ExceptionReporter(request, ValueError, ValueError("x"), None)

    settings.WEBHOOKS_OWNERS = f"{__name__}.Broken"
    answers = [client.get(amina.url("overview"))]
    settings.DEBUG = True
    answers.append(client.get(amina.url("overview")))

    assert [each.status_code for each in answers] == [500, 500]
    assert "RuntimeError" in answers[1].text
    shown = [*(each.text for each in answers), told_about(caplog.records, settings)]
    shown += [in_middleware.get_traceback_html(), in_middleware.get_traceback_text()]
    assert session not in "".join(shown)


def test_an_unopened_link_is_in_no_log_and_no_report(amina: Customer, caplog: Any, settings: Any) -> None:
    caplog.set_level(logging.DEBUG)
    url = portal_url(amina.user)
    token = url.split("/")[-2]
    client = Client(enforce_csrf_checks=True, raise_request_exception=False, headers=FRAME)

    answers = [client.post(url), client.put(url)]  # before the browser has a cookie
    client.get(url)
    answers += [client.post(url), client.put(url)]
    settings.WEBHOOKS_OWNERS = f"{__name__}.Broken"
    answers.append(client.get(url))
    settings.DEBUG = True
    answers.append(client.get(url))

    assert [each.status_code for each in answers] == [403, 403, 403, 403, 500, 500]
    assert "RuntimeError" in answers[-1].text
    assert len(caplog.records) >= len(answers)
    assert token not in told_about(caplog.records, settings)
    assert token not in answers[-1].text
    settings.WEBHOOKS_OWNERS, settings.DEBUG = "webhooks_app.owners.UserOwners", False
    opened(url)


@pytest.mark.parametrize("added", [">", ")./", "%3E%0A", "&gt;"])
def test_a_link_to_which_a_mail_program_added_characters_opens(amina: Customer, added: str) -> None:
    for url in (f"{portal_url(amina.user)}{added}", f"{portal_url(amina.user)[:-1]}{added}"):
        assert opened(url).get(amina.url("overview")).status_code == 200


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda url: url[:-2], id="cut short"),
        pytest.param(lambda url: f"{url[:-1]}AA/", id="longer"),
        pytest.param(lambda url: f"{url[:60]}=%0A{url[60:]}", id="broken line"),
        pytest.param(lambda url: url.replace(":", "%3B"), id="another separator"),
        pytest.param(lambda url: url.replace("lnk_", "%3Clnk_x"), id="characters before"),
    ],
)
def test_a_damaged_link_is_not_valid_and_in_no_log(amina: Customer, caplog: Any, damage: Any) -> None:
    caplog.set_level(logging.DEBUG)
    url = portal_url(amina.user)
    pk, signature = url.split("/")[-2].split(":")

    found = [Client().get(damage(url)), Client().post(damage(url)), Client().get(f"{damage(url)}?x")]

    assert [each.status_code for each in found] == [404, 404, 404]
    assert all("This link is no longer valid." in each.text for each in found)
    assert len(caplog.records) >= len(found)
    assert not [part for part in (pk, pk[:20], signature, signature[:20]) if part in caplog.text]
    opened(url)


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@pytest.mark.django_db(transaction=True)
def test_a_secret_shown_in_one_tab_of_a_link_is_not_kept_by_another(amina: Customer) -> None:
    client = opened(portal_url(amina.user, rights=ALL))
    other_tab = PortalLink.objects.get()
    key = {"name": "x", "scopes": ["webhooks:read"]}
    shown = client.post(amina.url("key-new"), key).headers["Location"]
    stale = PortalLink.objects.get()  # read by another tab before the secret is shown

    assert "whk_" in client.get(shown).text
    for link in (other_tab, stale):
        link.keep("messages", lambda stored: "[]")

    assert "whk_" not in client.get(shown).text
    assert PortalLink.objects.get().data.get("webhooks_app.shown_once") in (None, {})


def test_expired_links_are_deleted(amina: Customer) -> None:
    portal_url(amina.user)
    portal_url(amina.user, expires=timedelta(hours=1))
    now = timezone.now() + timedelta(minutes=16)

    delete_expired(PortalLink.objects.db, now)

    assert PortalLink.objects.count() == 1


def test_links_go_with_their_owner_and_their_user(amina: Customer, boris: Customer) -> None:
    portal_url(amina.user)
    portal_url(amina.user, user=boris.user)

    boris.user.delete()
    assert PortalLink.objects.count() == 1
    amina.user.delete()
    assert PortalLink.objects.count() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"rights": "read"}, id="text"),
        pytest.param({"rights": ["admin"]}, id="unknown right"),
        pytest.param({"expires": timedelta(0)}, id="expired"),
        pytest.param({"expires": timedelta(days=8)}, id="too long"),
        pytest.param({"page": "nowhere/"}, id="unknown page"),
        pytest.param({"page": "webhooks/../../2/"}, id="another account"),
        pytest.param({"page": "/deliveries/"}, id="absolute path"),
        pytest.param({"page": "deliveries/?x=\n"}, id="line break"),
    ],
)
def test_wrong_arguments_are_refused(amina: Customer, wrong: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(next(iter(wrong)).rstrip("s")[:4])):
        portal_url(amina.user, **wrong)


def test_only_saved_owners_get_links(db: None) -> None:
    with pytest.raises(InvalidOwnerError):
        portal_url(get_user_model()(username="unsaved"))
    with pytest.raises(InvalidOwnerError):
        portal_url(None)


def test_a_changed_link_is_refused_without_a_query(amina: Customer, django_assert_num_queries: Any) -> None:
    url = portal_url(amina.user)
    forged = f"{url[:-2]}{'A' if url[-2] != 'A' else 'B'}/"

    with django_assert_num_queries(0):
        assert Client().get(forged).status_code == 404


def test_a_request_by_link_costs_one_more_query(amina: Customer, django_assert_num_queries: Any) -> None:
    client = opened(portal_url(amina.user))

    with django_assert_num_queries(1):
        assert client.get(amina.url("event-types")).status_code == 200


def test_cookies_are_secure_where_the_host_says_so(rf: RequestFactory, settings: Any) -> None:
    settings.SESSION_COOKIE_SECURE = True
    response = HttpResponse()

    set_cookie(response, rf.get("/"), COOKIE, "x", is_framed=False)

    assert response.cookies[COOKIE]["secure"] is True


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
@pytest.mark.django_db(transaction=True)
def test_one_of_several_simultaneous_requests_opens_a_link(amina: Customer) -> None:
    url = portal_url(amina.user)
    clients = [Client() for _ in range(4)]
    for client in clients:
        client.get(url)
    at_once = threading.Barrier(len(clients))

    def click(client: Client) -> int:
        try:
            at_once.wait()
            return client.post(url).status_code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(clients)) as threads:
        statuses = list(threads.map(click, clients))

    assert set(statuses) == {302}
    assert sorted(client.get(url).status_code for client in clients) == [302, 404, 404, 404]
    assert AuditEntry.objects.filter(action="portal_link.opened").count() == 1


@pytest.mark.only_on("sqlite", "postgresql", "mariadb")
def test_a_link_opens_for_one_of_two_who_have_read_it(amina: Customer) -> None:
    portal_url(amina.user)
    first, second = (PortalLink.objects.get() for _ in range(2))

    assert open_link(first, is_framed=False)
    assert open_link(second, is_framed=False) is None
