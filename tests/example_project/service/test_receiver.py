"""The demonstration's receiver, which customers need not start."""

from __future__ import annotations

import json
import stat
import time

import pytest
from django.contrib.auth import get_user_model
from django.core.signing import Signer
from django.test import Client

from example_project import receiver
from example_project.receiver import url_of
from webhooks_app import register_webhook
from webhooks_app.signatures import signed_headers

SECRET = "a secret of the test"
RECEIVER = "http://127.0.0.1:8010/"


@pytest.fixture(autouse=True)
def address(settings):
    settings.RECEIVER_URL = RECEIVER
    receiver.inboxes = receiver.Inboxes()


def make_webhook(name="amina", secret=SECRET, **fields):
    account = get_user_model().objects.get_or_create(username=name)[0]
    return register_webhook(
        owner=account, url=url_of(account), event_types=["file.deleted"], secret=secret, description=name, **fields
    )


def path_of(webhook):
    return webhook.url.removeprefix(RECEIVER[:-1])


def send(path, secret=SECRET, event_type="file.deleted", event_id="evt_1", **data):
    body = json.dumps({"id": event_id, "type": event_type, "created": "2026-01-01T00:00:00Z", "data": data}).encode()
    headers = dict(signed_headers(secret, int(time.time()), event_type, body))
    return Client(enforce_csrf_checks=True).post(path, body, content_type="application/json", headers=headers)


@pytest.mark.urls("example_project.receiver")
def test_a_genuine_request_is_shown_and_another_is_refused(client):
    path = path_of(make_webhook())

    answers = [send(path, file_id="<b>1</b>"), send(path, secret="another secret of a test"), send(path, file_id="2")]
    page = client.get(path)

    assert [each.status_code for each in answers] == [200, 400, 200]
    assert page.content.decode().count("<td>verified</td>") == 2
    assert "&lt;b&gt;1&lt;/b&gt;" in page.content.decode()
    assert "Receiver of the demonstration" in page.content.decode()
    assert [each.status for each in page.context["refused"]] == [400]


@pytest.mark.urls("example_project.receiver")
def test_the_challenge_is_returned(client):
    answer = send(path_of(make_webhook()), event_type="webhook.verification", challenge="x" * 32)

    assert answer.json() == {"challenge": "x" * 32}


@pytest.mark.urls("example_project.receiver")
def test_each_account_and_each_webhook_has_its_own_inbox(client):
    first, second = make_webhook(), make_webhook(secret="a second secret of a test")
    other = make_webhook("boris")
    send(path_of(first), secret="a second secret of a test")

    shown = client.get(path_of(first)).context["webhooks"]

    assert first.url == second.url != other.url
    assert {webhook.pk: len(inbox.received) for webhook, inbox, _ in shown} == {first.pk: 0, second.pk: 1}
    assert [len(inbox.received) for _, inbox, _ in client.get(path_of(other)).context["webhooks"]] == [0]
    assert send(path_of(other)).status_code == 200
    assert send(path_of(other), secret="a second secret of a test").status_code == 400


@pytest.mark.urls("example_project.receiver")
@pytest.mark.parametrize("path", ["/1/", "/1.x/", "/x/", "/1.x/wh_1/"])
def test_invented_urls_lead_nowhere(client, path):
    make_webhook()

    assert [client.get(path).status_code, client.post(path).status_code][-1] == 404
    assert len(receiver.inboxes._accounts) == 0


@pytest.mark.urls("example_project.receiver")
def test_the_public_secret_key_does_not_reveal_a_url(client, settings):
    webhook = make_webhook()
    settings.SECRET_KEY_FALLBACKS = ["for development only"]
    guesses = [
        Signer(key=key, salt="example_project.receiver", sep=".").sign(webhook.owner_id)
        for key in (settings.SECRET_KEY, "for development only")
    ]

    assert [client.get(f"/{each}/").status_code for each in guesses] == [404, 404]
    assert client.get(path_of(webhook)).status_code == 200


def test_the_key_of_the_urls_is_private_and_differs_on_each_machine(settings, tmp_path):
    account = get_user_model()(pk=1)
    urls = []
    for name in ("first", "second", "first"):
        settings.VAR_DIR = tmp_path / name
        settings.VAR_DIR.mkdir(exist_ok=True)
        urls.append(url_of(account))

    assert urls[0] == urls[2] != urls[1]
    assert stat.S_IMODE((tmp_path / "first" / receiver.KEY_FILE).stat().st_mode) == 0o600
    assert len(list(settings.VAR_DIR.iterdir())) == 1


@pytest.mark.urls("example_project.receiver")
def test_a_receiver_fails_until_it_is_repaired(client):
    webhook, other = make_webhook(), make_webhook("boris")
    path = path_of(webhook)

    client.post(f"{path}{webhook.pk}/", {"fail": ""})
    failed = [send(path).status_code, send(path, secret="another secret of a test").status_code]
    client.post(f"{path}{webhook.pk}/")

    assert failed == [503, 400]
    assert send(path).status_code == 200
    assert client.post(f"{path}{other.pk}/", {"fail": ""}).status_code == 404
    assert Client(enforce_csrf_checks=True).post(f"{path}{webhook.pk}/", {"fail": ""}).status_code == 403


@pytest.mark.urls("example_project.receiver")
def test_the_memory_is_bounded(client, monkeypatch):
    monkeypatch.setattr(receiver, "MAX_RECEIVED", 20)
    webhook = make_webhook()
    for number in range(25):
        send(path_of(webhook), file_id=f"{number}" + "x" * 10_000)
    [(_, inbox, _)] = client.get(path_of(webhook)).context["webhooks"]
    kept = inbox.received

    assert len(kept) == 20
    assert max(len(each.data) for each in kept) == 4000
    assert kept[0].data.count("24xxx") == 1


@pytest.mark.urls("example_project.receiver")
def test_only_the_beginning_of_a_long_text_is_kept(client, settings):
    settings.WEBHOOKS_MAX_ENVELOPE_BYTES = 4_000_000
    path = path_of(make_webhook())
    long = "x" * 1_000_000

    answers = [send(path, event_type=f"{long}.y", event_id=long), send(path, secret="another secret of a test")]
    page = client.get(path)

    assert [each.status_code for each in answers] == [200, 400]
    [kept] = page.context["webhooks"][0][1].received
    assert (len(kept.type), len(kept.id)) == (200, 200)
    assert len(page.content) < 10_000


@pytest.mark.urls("example_project.receiver")
def test_a_body_that_the_service_cannot_send_is_refused(client, settings):
    settings.WEBHOOKS_MAX_ENVELOPE_BYTES = 3_000_000
    path = path_of(make_webhook())

    answers = [send(path, text="x" * 2_990_000), send(path, text="x" * 4_000_000)]

    assert [each.status_code for each in answers] == [200, 400]
    assert answers[1].json() == {"error": "The body is larger than 3,065,536 bytes."}
    assert "The body is larger" in client.get(path).content.decode()


@pytest.mark.urls("example_project.receiver")
def test_a_page_is_not_disturbed_by_requests_that_come_while_it_is_made(client):
    path = path_of(make_webhook())
    for secret in (SECRET, "another secret of a test") * 2:
        send(path, secret=secret)
    page = client.get(path).context
    rows = [iter(page["webhooks"][0][1].received), iter(page["refused"])]
    first = [next(each) for each in rows]

    for secret in (SECRET, "another secret of a test"):
        send(path, secret=secret)

    assert [each.status for each in first] == [200, 400]
    assert [len(list(each)) for each in rows] == [1, 1]


@pytest.mark.urls("example_project.receiver")
def test_looking_at_a_receiver_keeps_nothing(client):
    client.get(path_of(make_webhook()))

    assert len(receiver.inboxes._accounts) == 0


@pytest.mark.urls("example_project.receiver")
def test_the_requests_of_an_account_leave_the_inboxes_of_others_alone(client, monkeypatch):
    monkeypatch.setattr(receiver, "MAX_RECEIVED", 2)
    quiet, loud = (path_of(make_webhook(name)) for name in ("amina", "boris"))
    for path in (quiet, loud, loud, loud):
        send(path)

    found = [len(client.get(path).context["webhooks"][0][1].received) for path in (quiet, loud)]

    assert found == [1, 2]


@pytest.mark.urls("example_project.receiver")
def test_the_accounts_that_used_the_receiver_last_are_kept_and_each_switch(client, monkeypatch):
    monkeypatch.setattr(receiver, "MAX_ACCOUNTS", 2)
    failing, *others = (make_webhook(name) for name in ("amina", "boris", "carla"))
    client.post(f"{path_of(failing)}{failing.pk}/", {"fail": ""})
    for webhook in (failing, *others):
        send(path_of(webhook))

    pages = [client.get(path_of(webhook)) for webhook in (failing, *others)]

    assert [len(page.context["webhooks"][0][1].received) for page in pages] == [0, 1, 1]
    assert "for the 2 accounts that used it last" in pages[0].content.decode()
    assert send(path_of(failing)).status_code == 503


@pytest.mark.urls("example_project.receiver")
def test_data_of_any_depth_is_answered(client):
    path, answers = path_of(make_webhook()), {}

    for depth in (100, *range(800, 1000, 10), 9000, 50_000):  # around the limit of the interpreter
        nested = b'{"x":' * depth + b"1" + b"}" * depth
        body = b'{"id":"evt_1","type":"file.deleted","created":"2026-01-01T00:00:00Z","data":' + nested + b"}"
        headers = dict(signed_headers(SECRET, int(time.time()), "file.deleted", body))
        answers[depth] = client.post(path, body, content_type="application/json", headers=headers).status_code

    assert set(answers.values()) == {200, 400}
    assert (answers[100], answers[50_000]) == (200, 400)
    assert client.get(path).status_code == 200


@pytest.mark.urls("example_project.receiver")
def test_a_webhook_without_a_usable_key_does_not_disturb_the_others(client):
    broken = make_webhook(secret="a second secret of a test")
    path = path_of(broken)
    broken.signing_keys.all().delete()

    alone = send(path)
    make_webhook()

    assert (alone.status_code, alone.json()["error"]) == (400, "No webhook with this URL has a usable secret.")
    assert [send(path).status_code, send(path, secret="a second secret of a test").status_code] == [200, 400]


@pytest.mark.urls("example_project.receiver")
def test_more_webhooks_than_the_receiver_knows_are_named(client, monkeypatch):
    monkeypatch.setattr(receiver, "MAX_WEBHOOKS", 2)
    path = path_of(make_webhook())
    for number in range(2):
        before = client.get(path).content.decode()
        make_webhook(secret=f"secret {number} of a test")

    answers = [send(path), send(path, secret="secret 1 of a test")]
    page = client.get(path).content.decode()

    assert [each.status_code for each in answers] == [400, 200]
    assert "knows only the latest 2 webhooks with this URL" in answers[0].json()["error"]
    assert "More than 2 webhooks have this address." in page
    assert "More than 2 webhooks" not in before


@pytest.mark.urls("example_project.receiver")
def test_the_receiver_speaks_the_language_of_the_customer(client):
    path = path_of(make_webhook())
    send(path)

    page = client.get(path, headers={"Accept-Language": "de"}).content.decode()

    assert '<html lang="de">' in page
    assert "Empfänger der Vorführung" in page
    assert "<td>geprüft</td>" in page


def test_the_pages_about_webhooks_lead_to_the_receiver(client, settings):
    account = get_user_model().objects.create_user("amina")
    client.force_login(account)
    form = {"url": url_of(account), "event_types": ["file.deleted"]}

    suggested = client.get(f"/webhooks/{account.pk}/webhooks/new/")
    created = client.post(f"/webhooks/{account.pk}/webhooks/new/", form, follow=True)
    settings.RECEIVER_URL = ""
    without = client.get(f"/webhooks/{account.pk}/webhooks/new/")

    assert f'value="{url_of(account) or form["url"]}"' in suggested.content.decode()
    assert "the demonstration's receiver" in suggested.context["intro"]
    assert "has this secret already" in created.content.decode()
    assert f'href="{form["url"]}"' in created.content.decode()
    assert "listen_webhooks" not in created.content.decode()
    assert without.context["intro"] == ""
    assert 'value="http' not in without.content.decode()


@pytest.mark.parametrize("tail", ["x/", "?next=1", ""])
def test_only_webhooks_with_the_url_of_their_account_lead_to_the_receiver(client, tail):
    account, other = (get_user_model().objects.create_user(name) for name in ("amina", "boris"))
    client.force_login(account)
    urls = [f"{url_of(account)}{tail}", f"{url_of(other)}{tail}", f"http://127.0.0.1:8999/?{url_of(account)}{tail}"]

    pages = []
    for url in urls:
        webhook = register_webhook(owner=account, url=url, event_types=["file.deleted"])
        pages.append(client.get(f"/webhooks/{account.pk}/webhooks/{webhook.pk}/"))

    assert [page.status_code for page in pages] == [200, 200, 200]
    assert ["See what it received" in page.content.decode() for page in pages] == [not tail, False, False]


def test_the_number_of_webhooks_that_fail_on_purpose_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MAX_ACCOUNTS", 1)
    monkeypatch.setattr(receiver, "MAX_WEBHOOKS", 2)
    inboxes = receiver.Inboxes()

    for name in ("first", "second", "second", "third"):
        inboxes.switch(name, is_failing=True)

    assert [inboxes.get("", name).is_failing for name in ("first", "second", "third")] == [False, True, True]
