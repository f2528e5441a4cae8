"""The same filter finds the same rows in the console, on the customers' pages and in the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import product
from typing import Any, NamedTuple

import pytest
from django.contrib.admin import site
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client, RequestFactory
from django.urls import resolve, reverse
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.rows import EVENT_TYPE, make_older, make_webhook, plan_replay
from webhooks_app.emission import emit
from webhooks_app.models import ApiKey, Delivery, DeliveryAttempt, Event, Webhook
from webhooks_app.pages.listing import ALL, ListFilter
from webhooks_app.pages.lists import DELIVERIES, EVENTS, LISTS, REPLAYS, WEBHOOKS
from webhooks_app.protocol.json_data import format_time

pytestmark = [pytest.mark.django_db, pytest.mark.only_on("sqlite", "postgresql", "mariadb")]

OTHER_TYPE = "file.deleted"
DATA = {EVENT_TYPE: {"error": "x"}, OTHER_TYPE: {"file_id": "file_1", "user_id": "user_1", "filename": "x"}}
ON_FACES = {"deliveries": DELIVERIES, "events": EVENTS, "webhooks": WEBHOOKS, "replays": REPLAYS}
PORTAL_ROWS: dict[str, Callable[[Any], list[str]]] = {
    "deliveries": lambda context: [row.delivery.pk for row in context["rows"]],
    "events": lambda context: [event.pk for event in context["events"]],
    "webhooks": lambda context: [webhook.pk for webhook, *_more in context["webhooks"]],
}

many = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Reader(NamedTuple):
    """One person with rows of every kind: a member of staff, a customer, and the holder of a key."""

    user: Any
    client: Client
    key: str

    def console(self, name: str, query: dict[str, str]) -> list[str]:
        page = site.get_model_admin(ON_FACES[name].model).get_changelist_instance(self._request(query))
        assert not page.has_nonsense
        return [row.pk for row in page.result_list]

    def portal(self, name: str, query: dict[str, str]) -> list[str]:
        found = resolve(reverse(f"webhooks_portal:{name}", args=[self.user.pk]))
        page = found.func(self._request(query), **found.kwargs)
        assert page.context_data["form"].errors == {}
        return PORTAL_ROWS[name](page.context_data)

    def _request(self, query: dict[str, str]) -> Any:
        """Return a request for a page that is not rendered, because only its rows matter."""
        request = RequestFactory().get("/", query)
        request.user, request.session = self.user, self.client.session
        return request

    def api(self, name: str, query: dict[str, str]) -> list[str]:
        answer = self.client.get(f"/v1/{name}", query, headers={"authorization": f"Bearer {self.key}"})
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["results"]]


@pytest.fixture
def reader(settings: Any) -> Reader:
    settings.WEBHOOKS_API_RATE = ""
    user = get_user_model().objects.create_user("amina", is_staff=True)
    codenames = [f"view_{model}" for model in ("delivery", "event", "webhook", "replay")]
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    _make_rows(user)
    _make_rows(get_user_model().objects.create_user("boris"))
    return Reader(user, client, ApiKey.objects.make(owner=user)[1])


def _make_rows(owner: Any) -> None:
    """Make deliveries in every state, of several kinds, ages and results, some of them sent once more or replayed."""
    webhooks = [
        make_webhook(owner, EVENT_TYPE, OTHER_TYPE),
        make_webhook(owner, OTHER_TYPE, url="https://other.example/hook", description="of files"),
        make_webhook(owner, status="failed"),
    ]
    replay = plan_replay(webhooks[0], since=webhooks[0].created_at)
    plan_replay(webhooks[1], since=webhooks[1].created_at)
    events = [emit(name, DATA[name], owner=owner, references=[f"order_{name}"]) for name in DATA for _ in range(2)]
    events = [make_older(event, timedelta(days=2 * number)) for number, event in enumerate(events)]
    Event.objects.filter(pk=events[0].pk).update(is_test=True)
    Event.objects.filter(pk=events[2].pk).update(created_at=timezone.now() - timedelta(days=30))
    states = ("succeeded", "given_up", "cancelled")
    results = ("http_status", "timeout", "", "tls_error")
    for (event, state), result in zip(product(events, states), results * 3, strict=True):
        moment = event.created_at + timedelta(hours=1)
        facts = {"state": state, "last_result": result, "finished_at": moment, "attempt_count": 1}
        kind = "test" if result == "tls_error" else "event"
        delivery = Delivery.objects.create(webhook=webhooks[0], event=event, kind=kind, **facts)
        status = {"http_status": 503, "": 404}.get(result)
        attempt = {"result": result or "http_status", "started_at": moment, "url": webhooks[0].url}
        DeliveryAttempt.objects.create(delivery=delivery, number=1, response_status=status, **attempt)
        if state == "succeeded":  # a retry healed it
            healed = {**attempt, "result": "succeeded", "response_status": 200}
            DeliveryAttempt.objects.create(delivery=delivery, number=2, **healed)
            Delivery.objects.filter(pk=delivery.pk).update(attempt_count=2, last_result="succeeded")
    for delivery in Delivery.objects.filter(webhook=webhooks[0], state="given_up")[:2]:
        delivery.redeliver()
    Delivery.objects.filter(webhook=webhooks[0], state="cancelled").update(replay=replay)
    Delivery.objects.filter(webhook=webhooks[0], state="given_up", last_result="timeout").update(is_masked=True)
    Delivery.objects.create(webhook=webhooks[2], kind="verification")
    notice = Event.objects.create(type="webhook.retry", owner=owner, created_at=timezone.now())
    Delivery.objects.create(webhook=webhooks[0], event=notice, kind="retry_notice")


def _values(described: ListFilter) -> list[str]:
    """Return some values of a filter, with and without results."""
    if described.values:
        return list(described.values)
    if described.is_moment:
        days = (31, 5, 3, 0, -1)
        return [format_time(timezone.now() - timedelta(days=each, minutes=30)) for each in days]
    webhooks = Webhook.objects.order_by("pk").values_list("pk", flat=True)
    known: dict[str, Callable[[], Any]] = {
        "answer": lambda: ["404", "200"],
        "reference": lambda: [f"order_{EVENT_TYPE}", f"order_{OTHER_TYPE}", "nobody"],
        "event_type": lambda: [EVENT_TYPE, OTHER_TYPE, "webhook.retry", "webhook.verification", "nobodys.type"],
        "type": lambda: [EVENT_TYPE, OTHER_TYPE, "webhook.retry", "nobodys.type"],
        "webhook_id": lambda: [*webhooks, f"wh_{'0' * 32}"],
        "event_id": lambda: [*Event.objects.order_by("pk").values_list("pk", flat=True), "evt_unknown"],
        "replay_id": lambda: [
            *Delivery.objects.exclude(replay=None).order_by("pk").values_list("replay", flat=True).distinct(),
            "rpl_unknown",
        ],
    }
    assert described.samples or described.name in known, f"Name samples of {described.name} in pages/lists.py."
    return [*described.samples, *known.get(described.name, list)()]


def _of_pages(name: str, query: dict[str, str]) -> dict[str, str]:
    """Return the query with what pages hide by default."""
    shown = {each.name: ALL for each in ON_FACES[name].filters if each.default}
    return {**shown, **query}


def _faces(reader: Reader, name: str, query: dict[str, str]) -> Iterator[list[str]]:
    yield reader.console(name, _of_pages(name, query))
    if name in PORTAL_ROWS:
        yield reader.portal(name, _of_pages(name, query))


@pytest.mark.parametrize("name", ON_FACES)
@many
@given(data=st.data())
def test_the_same_filters_find_the_same_rows_on_every_face(reader: Reader, name: str, data: st.DataObject) -> None:
    filters = data.draw(st.lists(st.sampled_from(ON_FACES[name].documented), max_size=3, unique=True))
    query = {each.name: data.draw(st.sampled_from(_values(each)), label=each.name) for each in filters}
    for end in [each for each in query if each.endswith("_before")]:
        with suppress(KeyError):
            if query[start := end.replace("_before", "_after")] >= query[end]:
                del query[start]

    found = reader.api(name, query)

    for others in _faces(reader, name, query):
        assert others == found


@pytest.mark.parametrize("name", ON_FACES)
def test_each_value_finds_the_same_rows_on_every_face(reader: Reader, name: str) -> None:
    queries = [{each.name: value} for each in ON_FACES[name].documented for value in _values(each)]
    found = {str(query): [reader.api(name, query), *_faces(reader, name, query)] for query in queries}

    assert {query: faces for query, faces in found.items() if faces != faces[:1] * len(faces)} == {}
    assert any(faces[0] for faces in found.values())


def test_an_answer_also_finds_deliveries_that_a_retry_healed(reader: Reader) -> None:
    found = Delivery.objects.filter(pk__in=reader.api("deliveries", {"answer": "5xx"}))

    assert set(found.values_list("state", "last_result")) >= {("succeeded", "succeeded")}


@pytest.mark.parametrize("name", PORTAL_ROWS)
def test_the_same_search_finds_the_same_rows_on_every_page(reader: Reader, name: str) -> None:
    webhook, delivery = Webhook.objects.owned_by(reader.user).first(), Delivery.objects.owned_by(reader.user).first()
    foreign = Webhook.objects.exclude(owner=reader.user).first()
    assert webhook is not None
    assert delivery is not None
    assert foreign is not None
    terms = [webhook.pk, foreign.pk, delivery.pk, str(delivery.event_id), f"order_{EVENT_TYPE}", "other.example", "x y"]

    found = {term: (reader.console(name, {"q": term}), reader.portal(name, {"q": term})) for term in terms}

    assert {term: pages for term, pages in found.items() if pages[0] != pages[1]} == {}
    assert any(pages[0] for pages in found.values())


WORDS = "abcdefghijklmnopqrst"
OTHER_WORDS = [chr(0x4E00 + number) for number in range(1000)]


def test_a_search_considers_its_first_20_words(reader: Reader) -> None:
    found = make_webhook(reader.user, description=WORDS)
    long = " ".join(["a", *WORDS, *OTHER_WORDS])

    assert reader.console("webhooks", {"q": long}) == reader.portal("webhooks", {"q": long}) == [found.pk]
    assert reader.console("webhooks", {"q": " ".join([*WORDS[:-1], *OTHER_WORDS])}) == []


@pytest.mark.parametrize("name", PORTAL_ROWS)
def test_no_list_fails_because_of_many_words(reader: Reader, name: str) -> None:
    long = {"q": " ".join([*OTHER_WORDS, *WORDS])}

    assert reader.console(name, long) == reader.portal(name, long) == []


@pytest.mark.parametrize("name", PORTAL_ROWS)
def test_pages_hide_the_same_rows_until_something_is_chosen(reader: Reader, name: str) -> None:
    assert reader.console(name, {}) == reader.portal(name, {}) != []


def test_each_filter_has_a_name_of_its_own_and_a_sentence_or_is_only_of_pages() -> None:
    for listed in LISTS:
        names = [each.name for each in listed.filters]

        assert len(set(names)) == len(names)
        assert [each.name for each in listed.documented if not each.meaning.endswith(".")] == []
        assert {each.name for each in listed.filters if each.default} <= {"kind", "state", "type"}
