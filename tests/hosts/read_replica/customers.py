"""Every page, form and action of the customers' pages, for a user with one account."""

from accounts import MEMBER, owner_of_member
from console import KEY, REPLAYS, STATES
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from subjects import EVENT_TYPE, URL, Subject

from webhooks_app.pages.actions import REPLAY as STEPS
from webhooks_app.portal import portal_url, urls
from webhooks_app.portal.actions import ACTIONS

ROWS = {
    "webhooks": lambda s: s.webhook.pk,
    "deliveries": lambda s: s.delivery.pk,
    "events": lambda s: s.event.pk,
    "replays": lambda s: s.replay.pk,
    "api-keys": lambda s: s.key[0].pk,
}
"""The identifier in a path, by the beginning of the path."""

FORMS = {
    "webhook-new": {"url": f"{URL}new", "event_types": EVENT_TYPE},
    "webhook-settings": {
        "url": f"{URL}new",
        "event_types": EVENT_TYPE,
        "signatures": "native",
        "accepted_statuses": "200",
        "order": "none",
    },
    "webhook-test": {"event_type": EVENT_TYPE, "event_data": '{"order": "ord_1", "amount": 1}'},
    "webhook-rotate": {"overlap_hours": "1"},
    "replay-new": {"states": "succeeded"},
    "delivery": {},
    "key-new": KEY,
    "key-revoke": {},
}

OTHERS = {
    "accounts": lambda s, client: client.get(reverse("webhooks_portal:accounts"), follow=True),
    "link": lambda s, client: opened(s),
    "link-damaged": lambda s, client: Client().get(f"{portal_url(s.owner)}>"),
    "link-end": lambda s, client: opened(s).client.post(reverse("webhooks_portal:link-end")),
}
"""The pages outside an account."""


def opened(subject):
    link, visitor = portal_url(subject.owner, rights=("manage",)), Client()
    visitor.get(link)
    return visitor.post(link, follow=True)


def names():
    """Return every call: the pages by their routes, the forms, and each action."""
    pages = {each.name for each in urls.account} - {"webhook-action", "replay-step"}
    outside = {each.name for each in urls.urlpatterns if hasattr(each, "name")}
    assert outside == OTHERS.keys()
    return [
        *sorted(pages),
        *(f"{name} (form)" for name in FORMS),
        *(f"webhook-action {name}" for name in ACTIONS),
        *(f"replay-step {name}" for name in STEPS),
        *OTHERS,
    ]


def problem(name):
    """Call a page, form or action for a new owner. Return what was wrong, or "" after a success."""
    subject, client = Subject(owner_of_member()), Client()
    client.force_login(get_user_model().objects.get(username=MEMBER))
    if name in OTHERS:
        return wrong(OTHERS[name](subject, client))
    route, _, more = name.partition(" ")
    path = path_of(subject, route, more)
    if more:
        answer = client.post(path, FORMS.get(route, {}), follow=True)
        return wrong(answer) or ("" if answer.redirect_chain else "not redirected")
    return wrong(client.get(path))


def path_of(subject, route, more):
    pattern = next(each for each in urls.account if each.name == route)
    given = {"owner": subject.owner.pk, "token": "x", "name": EVENT_TYPE, "action": more, "verb": more}
    if "pk" in pattern.pattern.converters:
        given["pk"] = row(subject, route, more, str(pattern.pattern).partition("/")[0])
    return reverse(
        f"webhooks_portal:{route}", kwargs={name: given[name] for name in ("owner", *pattern.pattern.converters)}
    )


def row(subject, route, more, beginning):
    if route == "webhook-action" and more.replace("-", "_") in STATES:
        return STATES[more.replace("-", "_")](subject).pk
    if route == "replay-step":
        return REPLAYS.get(more, lambda s: s.replay)(subject).pk
    if route == "replay-new":
        return subject.delivery.webhook_id
    return ROWS[beginning](subject)


def wrong(answer):
    text = answer.content.decode()
    refused = [word for word in ("webhooks-message-error", 'class="errorlist') if word in text]
    return "" if answer.status_code == 200 and not refused else f"{answer.status_code} {refused} {text[-3000:]}"
