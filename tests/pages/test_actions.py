"""Every action in every state, in the console, on the customers' pages and in the API: the tables of these actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from webhooks_app.exceptions import AlreadyInStateError
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Problem, QueueEntry, Replay, Webhook
from webhooks_app.operations.actors import PROJECT
from webhooks_app.operations.lifecycle import start_verification
from webhooks_app.operations.registration import update_webhook
from webhooks_app.operations.sending import send_test_event
from webhooks_app.pages.actions import API_KEY, DELIVERY, PROBLEM, REPLAY, WEBHOOK, UserAction

from ..admin.conftest import Page, shown_messages, superuser
from ..api.conftest import ApiClient, client_of
from ..portal.conftest import Customer, amina
from ..support.rows import EVENT_TYPE, URL, emit_one, end_deliveries, make_problem, make_webhook

__all__ = ["amina", "superuser"]

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite", "postgresql", "mariadb")]

LATER = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _unlimited(settings: Any) -> None:
    settings.WEBHOOKS_TEST_RATE = settings.WEBHOOKS_VERIFICATION_RATE = settings.WEBHOOKS_PROBE_RATE = ""
    settings.WEBHOOKS_API_RATE = ""


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# The rows in each state


def webhook_in(state: str, owner: Any) -> Webhook:
    is_pending = state.startswith("pending")
    status = state if state in Webhook.Status.values else "pending" if is_pending else "active"
    webhook = make_webhook(owner, status=status)
    if "new URL" in state:
        update_webhook(webhook, url=f"{URL}/new", actor=PROJECT)
    if "paused" in state:
        webhook.pause()
    if state == "prepared":
        webhook.rotate_secret(activate_at=timezone.now() + LATER)
    if state == "rotated":
        webhook.rotate_secret()
    return Webhook.objects.get(pk=webhook.pk)


ALWAYS = {"rotate_secret", "replay_missed", "delete"}

WEBHOOKS = {
    "pending": {*ALWAYS, "send_test", "verify", "pause", "disable"},
    "active": {*ALWAYS, "send_test", "pause", "disable"},
    "failed": {*ALWAYS, "send_test", "verify", "disable"},
    "disabled": {*ALWAYS, "enable"},
    "paused": {*ALWAYS, "resume", "disable"},
    "pending, paused": {*ALWAYS, "resume", "disable"},
    "new URL": {*ALWAYS, "send_test", "verify", "pause", "disable"},
    "new URL, paused": {*ALWAYS, "verify", "resume", "disable"},
    "prepared": {*ALWAYS, "send_test", "pause", "disable", "activate_secret", "withdraw_secret"},
    "rotated": {*ALWAYS, "send_test", "pause", "disable", "revoke_previous_secret"},
}
"""The actions that each state of a webhook permits."""


def delivery_in(state: str, owner: Any) -> Delivery:
    webhook = make_webhook(owner)
    if state == "verification":
        Webhook.objects.filter(pk=webhook.pk).update(status="pending")
        webhook.refresh_from_db()
        delivery = start_verification(webhook, actor=PROJECT)
    elif "test" in state:
        delivery = send_test_event(webhook, EVENT_TYPE)
    else:
        delivery = Delivery.objects.get(webhook=webhook, event=emit_one(owner))
    own, entry = Delivery.objects.filter(pk=delivery.pk), QueueEntry.objects.filter(pk=delivery.pk)
    if state in Delivery.State.values:
        end_deliveries(own, state=state)
    elif state != "due":
        now = timezone.now()
        claim = {"claimed_at": now, "leased_until": now + LATER, "worker": 1} if "in flight" in state else {}
        lost = {"claimed_at": now - LATER, "leased_until": now, "worker": 1} if "lost" in state else {}
        order = {"place": 2, "order_key": "", "due_at": None} if "ordered" in state else {}
        entry.update(**{"attempt": 1, "due_at": now + LATER, **claim, **lost, **order})
        own.update(expires_at=now if "expired" in state else None, is_masked="masked" in state)
        for status in {"disabled", "pending"} & set(state.split()):
            Webhook.objects.filter(pk=webhook.pk).update(status=status)
        if "paused" in state:
            webhook.pause()
    return own.select_related("event", "webhook__lane", "queue_entry").get()


HELD = ("due", "in flight", "lost", "paused", "pending webhook", "disabled webhook", "ordered", "expired")
PROBED = ("masked test", "test of pending webhook", "verification")

DELIVERIES: dict[str, set[str]] = {
    **{state: {"redeliver"} for state in ("succeeded", "given_up", "cancelled")},
    **{state: {"retry"} for state in ("waiting", "waiting test")},
    **{state: set() for state in (*HELD, *PROBED)},
}
"""The same of a delivery."""


def replay_in(state: str, owner: Any) -> Replay:
    webhook, now = make_webhook(owner), timezone.now()
    return Replay.objects.create(webhook=webhook, since=now - LATER, until=now, state=state, matched=1)


REPLAYS = {
    "counting": {"cancel"},
    "ready": {"start", "cancel"},
    "running": {"pause", "cancel"},
    "paused": {"resume", "cancel"},
    "stopped": {"resume", "cancel"},
    "done": set(),
    "cancelled": set(),
}

PROBLEMS = {
    "open": {"acknowledge", "ignore"},
    "acknowledged": {"ignore", "reopen"},
    "ignored": {"acknowledge", "reopen"},
    "resolved": {"ignore"},
}


def problem_in(state: str, owner: Any) -> Problem:
    return make_problem(make_webhook(owner), state=state)


KEYS = {"valid": {"revoke", "delete"}, "revoked": {"delete"}}


def key_in(state: str, owner: Any) -> ApiKey:
    key, _text = ApiKey.objects.make(owner=owner, name="Import")
    if state == "revoked":
        key.revoke()
    return key


CASES = [
    *((WEBHOOK, webhook_in, state, names) for state, names in WEBHOOKS.items()),
    *((DELIVERY, delivery_in, state, names) for state, names in DELIVERIES.items()),
    *((REPLAY, replay_in, state, names) for state, names in REPLAYS.items()),
    *(
        (PROBLEM, lambda state, owner: make_problem(make_webhook(owner), state=state), *each)
        for each in PROBLEMS.items()
    ),
    *((API_KEY, key_in, state, names) for state, names in KEYS.items()),
]
MODELS: Mapping[int, str] = {
    id(WEBHOOK): "webhook",
    id(DELIVERY): "delivery",
    id(REPLAY): "replay",
    id(PROBLEM): "problem",
    id(API_KEY): "apikey",
}

walk = pytest.mark.parametrize(
    ("table", "make", "state", "permitted"), CASES, ids=[f"{MODELS[id(case[0])]} {case[2]}" for case in CASES]
)
Table = Mapping[str, UserAction]
Make = Callable[[str, Any], Any]


def words(page: Any) -> str:
    return unescape(page.content.decode())


@walk
def test_the_tables_name_the_actions_that_a_state_permits(
    amina: Customer, table: Table, make: Make, state: str, permitted: set[str]
) -> None:
    row = make(state, amina.user)

    assert {name for name, action in table.items() if action.is_for(row)} == permitted


@pytest.mark.parametrize("table", [WEBHOOK, DELIVERY, REPLAY, PROBLEM, API_KEY], ids=lambda table: MODELS[id(table)])
def test_an_action_without_a_form_says_what_it_has_done(table: Table) -> None:
    assert [name for name, action in table.items() if action.operation and not action.done] == []


@walk
def test_the_operation_refuses_on_the_locked_row_what_the_table_refuses(
    amina: Customer, table: Table, make: Make, state: str, permitted: set[str]
) -> None:
    row = make(state, amina.user)

    for name, action in table.items():
        if action.operation is None:
            continue
        with undone():
            error, audited = action.rule.refusal(row), AuditEntry.objects.count()
            if error is None:
                action.operation(type(row).objects.get(pk=row.pk), actor=PROJECT)
                assert AuditEntry.objects.count() > audited, name
            else:
                with pytest.raises(type(error)) as refused:
                    action.operation(type(row).objects.get(pk=row.pk), actor=PROJECT)
                assert str(refused.value) == str(error), name


@walk
def test_the_console_offers_what_the_table_permits_and_says_why_not(
    superuser: Page, amina: Customer, table: Table, make: Make, state: str, permitted: set[str]
) -> None:
    row = make(state, amina.user)
    model = MODELS[id(table)]
    shown = words(superuser.get(model, "change", row.pk))

    for name, action in table.items():
        if name == "delete":
            continue  # Django's own button
        with undone():
            address = reverse(f"admin:webhooks_app_{model}_act", args=(quote(row.pk), name))
            assert (address in shown) == (name in permitted), name
            answer = superuser.client.get(address, follow=True)
            if name in permitted:
                is_form = "/replay/add/" in str(answer.redirect_chain)
                assert is_form or not answer.redirect_chain, name
                assert "<form" in words(answer), name
            else:
                assert shown_messages(answer) == [action.refusal(row)], name
                answer = superuser.client.post(address, {"confirmed": "yes"}, follow=True)
                assert shown_messages(answer) == [action.refusal(row)], name


PAGES = {id(WEBHOOK): "webhook", id(DELIVERY): "delivery", id(REPLAY): "replay", id(API_KEY): "keys"}
FORMS = {"send_test": "webhook-test", "rotate_secret": "webhook-rotate", "replay_missed": "replay-new"}


def address_for_customers(account: Customer, table: Table, row: Any, name: str) -> str:
    if table is API_KEY:
        return account.url("key-revoke", row.pk)
    if table is REPLAY:
        return account.url("replay-step", row.pk, name)
    if name in FORMS:
        return account.url(FORMS[name], row.pk)
    return account.url("webhook-action", row.pk, name.replace("_", "-"))


@walk
def test_customers_are_offered_what_the_table_permits_and_told_why_not(
    amina: Customer, table: Table, make: Make, state: str, permitted: set[str]
) -> None:
    if table is PROBLEM:
        assert id(table) not in PAGES  # which customers do not see
        return
    row = make(state, amina.user)
    shown = words(amina.get(PAGES[id(table)], *([] if table is API_KEY else [row.pk])))
    if table is WEBHOOK:  # whose page has sections
        shown += words(amina.get("webhook-settings", row.pk)) + words(amina.get("deliveries", webhook_id=row.pk))

    for name, action in table.items():
        if table is API_KEY and name == "delete":
            continue
        with undone():
            if table is DELIVERY:
                assert (f'value="{name}"' in shown) == (name in permitted), name
            else:
                address = address_for_customers(amina, table, row, name)
                assert (f'"{address}"' in shown) == (name in permitted), name
                answer = amina.client.get(address, follow=True)
                is_refused = bool(answer.redirect_chain)
                assert is_refused == (name not in permitted), name
                assert not is_refused or action.refusal(row) in words(answer), name
            if name in permitted or action.operation is None:
                continue
            if table is DELIVERY:
                answer = amina.post("delivery", row.pk, action=name)
            else:
                answer = amina.client.post(address, follow=True)
            assert action.refusal(row) in words(answer), name


ROUTES = {id(WEBHOOK): "webhooks", id(DELIVERY): "deliveries", id(REPLAY): "replays"}
OF_A_SCHEME = {"activate_secret", "withdraw_secret", "revoke_previous_secret"}


def answer_of_api(api: ApiClient, table: Table, row: Any, name: str) -> Any:
    address = f"/v1/{ROUTES[id(table)]}/{row.pk}"
    if name == "send_test":
        return api.call("POST", "/v1/webhooks/test", {"webhook_id": row.pk, "event_type": EVENT_TYPE})
    return api.call("DELETE", address) if name == "delete" else api.call("POST", f"{address}/{name.replace('_', '-')}")


@walk
def test_the_api_does_what_the_table_permits_and_says_why_not(
    amina: Customer, table: Table, make: Make, state: str, permitted: set[str]
) -> None:
    if id(table) not in ROUTES:
        assert table in (PROBLEM, API_KEY)  # which the API does not have
        return
    row, api = make(state, amina.user), client_of(amina.user)

    for name in table.keys() - OF_A_SCHEME - {"rotate_secret", "replay_missed"}:
        with undone():
            answer, error = answer_of_api(api, table, row, name), table[name].rule.refusal(row)
            is_as_asked = isinstance(error, AlreadyInStateError) and name != "verify"
            assert (answer.status_code < 300) == (name in permitted or is_as_asked), (name, answer.content)
            if answer.status_code >= 300:
                assert (answer.status_code, answer.json()["detail"]) == (409, str(error)), name


def test_a_forgotten_tab_does_not_hold_the_events_of_a_verified_webhook(amina: Customer, superuser: Page) -> None:
    webhook = make_webhook(amina.user, status="pending")
    tab = amina.client.get(amina.url("webhook-action", webhook.pk, "verify"))
    Webhook.objects.filter(pk=webhook.pk).update(status="active")

    answers = [
        amina.post("webhook-action", webhook.pk, "verify"),
        superuser.post("webhook", "act", webhook.pk, "verify", confirmed="yes"),
        client_of(amina.user).call("POST", f"/v1/webhooks/{webhook.pk}/verify"),
    ]

    assert tab.status_code == 200
    assert [f"Webhook {webhook.pk} is verified already" in words(each) for each in answers] == [True, True, True]
    assert Webhook.objects.get(pk=webhook.pk).status == "active"
