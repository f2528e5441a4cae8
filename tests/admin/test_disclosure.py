"""Facts about unreachable URLs that the console hides from the owner of an unverified webhook."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from tests.delivery.conftest import ImpatientTransport, ManualClock
from tests.support.masked import CAUSES as FACTS
from tests.support.masked import make_rows, set_cause
from webhooks_app.admin.webhook_page import SECTIONS
from webhooks_app.delivery.engine import Engine
from webhooks_app.models import AuditEntry, Delivery, DeliveryAttempt, Webhook
from webhooks_app.models.disclosure import UNREACHABLE_MESSAGE, unreachable_message
from webhooks_app.operations.sending import send_test_event
from webhooks_app.reasons import ReasonText
from webhooks_app.transport import TransportError, errors

from .conftest import Page, shows, text

pytestmark = pytest.mark.only_on("sqlite")

NAME = "redis.default.example"
VIEW = tuple(f"view_{model}" for model in ("webhook", "event", "delivery", "auditentry", "replay", "problem"))
CAUSES = [
    pytest.param(errors.name_unknown(NAME), "dns_error", id="unresolved"),
    pytest.param(errors.address_refused(NAME), "address_refused", id="refused"),
    pytest.param(errors.connect_timed_out(30), "timeout", id="filtered"),
    pytest.param(errors.not_connected(NAME), "connection_error", id="closed"),
    pytest.param(errors.handshake_failed(), "tls_error", id="tls"),
]


@pytest.fixture
def member(staff: Callable[..., Page]) -> Page:
    """A member of staff without the permission to manage all webhooks."""
    return staff("berta", *VIEW, "test_webhook", "verify_webhook", "replay_webhook")


@pytest.fixture
def unverified(member: Page, new_webhook: Callable[..., Webhook]) -> Webhook:
    webhook = new_webhook(member.user, url=f"https://{NAME}/")
    Webhook.objects.update(status="pending")
    return webhook


def fail(webhook: Webhook, cause: TransportError, *, kind: str = "verification") -> Delivery:
    """Deliver until a test or a verification is given up."""
    webhook.refresh_from_db()
    if kind == "test":
        send_test_event(webhook, "file.deleted")
    else:
        Delivery.objects.queue(webhook=webhook, kind=kind)
    clock = ManualClock()
    Engine(transport=ImpatientTransport(clock, cause), clock=clock).run_until_idle()
    DeliveryAttempt.objects.update(duration_ms=1234, peer="10.9.8.7", response_body="HTTP/1.1 2")
    return Delivery.objects.get(kind=kind)


def pages_of(page: Page, delivery: Delivery) -> str:
    """Return all pages about a delivery, without what every request changes."""
    answers = [
        page.get("delivery", kind="all"),
        page.get("delivery", "change", delivery.pk),
        page.get("webhook"),
        *(page.get("webhook", "change", delivery.webhook_id, section=section) for section in SECTIONS),
        page.get("webhook", "history", delivery.webhook_id),
        page.client.get(f"/admin/webhooks_app/webhook/{delivery.webhook_id}/live/handshake/"),
        page.client.get(f"/admin/webhooks_app/webhook/{delivery.webhook_id}/live/recent/"),
    ]
    if delivery.event_id is not None:
        answers.append(page.get("event", "change", delivery.event_id))
    return re.sub(
        r"\w+_(5F)?[0-9a-f]{32}|csrf\w+\" value=\"\w+|<time.*?</time>|20\d\d-[\d:.T-]+Z",
        "",
        "\n".join(map(text, answers)),
    )


@pytest.mark.parametrize("kind", ["verification", "test"])
def test_the_owner_sees_the_same_for_every_cause_but_two(
    member: Page, unverified: Webhook, kind: str, django_user_model: Any
) -> None:
    shown = set()
    causes = [each.values[0] for each in CAUSES]
    for cause in [each for each in causes if unreachable_message(each.message) == UNREACHABLE_MESSAGE]:
        Delivery.objects.all().delete()
        AuditEntry.objects.all().delete()
        Webhook.objects.update(status="pending", status_reason="")
        shown.add(pages_of(member, fail(unverified, cause, kind=kind)))

    assert len(shown) == 1


@pytest.mark.parametrize(("cause", "result"), CAUSES)
@pytest.mark.parametrize("kind", ["verification", "test"])
def test_no_page_shows_the_owner_a_duration_an_address_or_the_cause(
    member: Page, unverified: Webhook, cause: TransportError, result: str, kind: str
) -> None:
    pages = pages_of(member, fail(unverified, cause, kind=kind))

    assert "URL not reached" in pages
    assert [words for words in (cause.message, "1234", "1,234", "10.9.8.7", "HTTP/1.1 2") if words in pages] == []


@pytest.mark.parametrize(("cause", "result"), CAUSES)
def test_a_filter_by_result_does_not_reveal_the_cause(
    member: Page, unverified: Webhook, cause: TransportError, result: str
) -> None:
    delivery = fail(unverified, cause)

    found = {
        value: member.get("delivery", result=value, kind="all").context["cl"].result_count
        for value in (result, "unreachable")
    }

    assert found == {result: 0, "unreachable": 1}
    assert delivery.last_result == result


def test_a_filter_by_the_time_of_the_end_does_not_reveal_it(member: Page, superuser: Page, unverified: Webhook) -> None:
    delivery = fail(unverified, errors.name_unknown(NAME))
    query = {"kind": "all", "finished_after": delivery.created_at.isoformat()}

    found = [page.get("delivery", **query).context["cl"].result_count for page in (member, superuser)]

    assert found == [0, 1]


def test_the_end_of_a_failed_verification_is_hidden_from_the_owner(member: Page, unverified: Webhook) -> None:
    delivery = fail(unverified, errors.name_unknown(NAME))
    assert delivery.finished_at is not None

    page = member.get("delivery", "change", delivery.pk)
    webhooks = [text(member.get("webhook", "change", unverified.pk, section=section)) for section in SECTIONS]
    audit = member.get("auditentry", q=unverified.pk)

    assert delivery.finished_at.isoformat() not in text(page)
    assert not [html for html in webhooks if "status since" in html.lower()]
    assert "verification failed" not in [entry.get_action_display() for entry in audit.context["cl"].result_list]
    assert all(escape(ReasonText("unreachable_name")) in html for html in webhooks)


@pytest.mark.parametrize(("cause", "result"), CAUSES)
def test_users_who_manage_all_webhooks_see_the_cause(
    superuser: Page, unverified: Webhook, cause: TransportError, result: str
) -> None:
    delivery = fail(unverified, cause)
    page = superuser.get("delivery", "change", delivery.pk)

    assert shows(page, cause.message)
    assert "1,234\xa0ms" in text(page)
    assert superuser.get("delivery", result=result, kind="all").context["cl"].result_count == 1
    assert AuditEntry.objects.filter(action="webhook.verification_failed").exists()


def test_the_owner_of_a_verified_webhook_sees_the_cause_of_a_failed_test(member: Page, unverified: Webhook) -> None:
    Webhook.objects.update(status="active")
    delivery = fail(unverified, errors.not_connected(NAME), kind="test")

    page = member.get("delivery", "change", delivery.pk)

    assert shows(page, errors.not_connected(NAME).message)
    assert "1,234\xa0ms" in text(page)


LINK = re.compile(r'(?:href|action|data-[a-z]*url)="([^"#]+)"')
VARYING = re.compile(rb'csrf\w+" value="\w+|nonce="[^"]+')


def walk(page: Page, webhook: Webhook) -> dict[str, bytes]:
    """Return all pages that links lead to, with all filters and orders of the lists, by URL."""
    names = [name.removeprefix("view_") for name in VIEW]
    lists = [reverse(f"admin:webhooks_app_{name}_changelist") for name in names]
    base = f"/admin/webhooks_app/webhook/{webhook.pk}"
    waiting = [*lists, f"{lists[0]}search/?q=dlv_", f"{base}/live/handshake/", f"{base}/live/recent/"]
    waiting += [f"{path}?o=-{column}" for path in lists for column in range(1, 4)]
    deliveries = reverse("admin:webhooks_app_delivery_changelist")
    waiting += [f"{deliveries}{pk}/change/" for pk in webhook.deliveries.values_list("pk", flat=True)]
    filters = ("answer=timeout", "answer=5xx", "q=redis", "finished_after=2020-01-01", "finished_before=2030-01-01")
    waiting += [f"{deliveries}?kind=all&{query}" for query in filters]
    found: dict[str, bytes] = {}
    while waiting:
        url = waiting.pop()
        if url in found:
            continue
        answer = page.client.get(url)
        found[url] = VARYING.sub(b"", b"%d %s" % (answer.status_code, getattr(answer, "content", b"")))
        if "?" in url:
            continue  # a combination of filters
        links = (html.unescape(link) for link in LINK.findall(found[url].decode()))
        targets = (f"{url}{link}" if link.startswith("?") else link for link in links)
        waiting += [each for each in targets if each.startswith("/admin/webhooks_app/")]
    return found


def exports(page: Page, urls: Iterable[str]) -> dict[str, bytes]:
    """Return the exports of the lists among these pages, with the same filters, by URL."""
    found = {}
    for url in urls:
        listed, _, query = url.partition("?")
        if any(listed == reverse(f"admin:webhooks_app_{name.removeprefix('view_')}_changelist") for name in VIEW):
            answer: Any = page.client.post(f"{listed}export/?{query}", {"format": "ndjson"})
            found[url] = answer.getvalue() if answer.status_code == 200 else b""
            AuditEntry.objects.filter(action="list.exported").delete()  # later exports would contain it
    return found


def test_no_page_filter_order_or_export_tells_one_cause_from_another(
    member: Page, unverified: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    handshake, _ = make_rows(unverified, "file.deleted")
    frozen = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: frozen)
    pages, files = [], []
    for cause in FACTS:
        set_cause(cause)
        pages.append(walk(member, unverified))
        files.append(exports(member, pages[0]))

    addresses = ("delivery/{handshake.pk}/change/", "replay/add/", "problem/impact/", "receivers/")
    assert {f"/admin/webhooks_app/{each.format(handshake=handshake)}" for each in addresses} <= pages[0].keys()
    assert len(pages[0]) > 200
    assert [url for url in pages[0] if pages[0][url] != pages[1].get(url)] == []
    assert pages[0].keys() == pages[1].keys()
    assert b"URL not reached" in b"".join(pages[0].values())
    deliveries = f"{reverse('admin:webhooks_app_delivery_changelist')}?kind=all"
    assert len(files[0]) > 30
    assert files[0] == files[1]
    assert handshake.pk.encode() in files[0][deliveries]
    assert b'"result": "unreachable"' in files[0][deliveries]


def test_the_pages_of_users_who_manage_all_webhooks_differ_by_the_cause(superuser: Page, unverified: Webhook) -> None:
    handshake, _ = make_rows(unverified, "file.deleted")
    url = f"/admin/webhooks_app/delivery/{handshake.pk}/change/"
    pages = []
    for cause in FACTS:
        set_cause(cause)
        pages.append(superuser.client.get(url).content.decode())

    assert [str(cause.duration_ms) in page for cause, page in zip(FACTS, pages, strict=True)] == [True, True]
