"""Every page, form and action of the console, for the whole staff and for a member who sees one owner."""

from accounts import MEMBER, STAFF, owner_of_member
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from subjects import EVENT_TYPE, URL, Subject

from webhooks_app.admin.webhooks import PAGES
from webhooks_app.models import ApiKey, AuditEntry, Delivery, Event, Problem, Replay, Webhook

ROWS = {
    "webhook": lambda s: s.webhook.pk,
    "apikey": lambda s: s.key[0].pk,
    "event": lambda s: s.event.pk,
    "delivery": lambda s: s.delivery.pk,
    "replay": lambda s: s.replay.pk,
    "problem": lambda s: s.problem.pk,
    "auditentry": lambda s: s.entry.pk,
}
LISTED = ROWS | {"auditentry": lambda s: s.entry.subject}
"""The text by which a list shows the row."""
STATES = {
    "resume": lambda s: s.paused,
    "enable": lambda s: s.disabled,
    "verify": lambda s: s.unverified,
    "activate_secret": lambda s: s.prepared,
    "withdraw_secret": lambda s: s.prepared,
    "revoke_previous_secret": lambda s: s.rotated,
}
REPLAYS = {"start": lambda s: s.replay, "pause": lambda s: s.running, "resume": lambda s: s.stopped}
NOT_FOR_MEMBERS = {"webhooks_app_operations_changelist"}
WEBHOOK = {"url": f"{URL}new", "event_types": EVENT_TYPE, "signatures": "native"}
EXPORT = {"format": "csv"}
KEY = {"name": "new", "scopes": ["webhooks:read"], "expires_at": "2999-01-01T00:00:00"}
ELSEWHERE = {"webhooks_app_webhook_shown", "webhooks_app_webhook_link", "webhooks_app_apikey_shown"}
"""Pages to which the forms and actions with a new secret redirect."""
FORBIDDEN = {
    f"webhooks_app_{model}_{page}"
    for model in ("auditentry", "delivery", "event", "problem")
    for page in ("add", "delete")
} | {"webhooks_app_replay_delete"}
"""Pages of Django for rows that only the app writes."""


def admins():
    return {model._meta.model_name: each for model, each in admin.site._registry.items() if model in OURS}


OURS = (ApiKey, AuditEntry, Delivery, Event, Problem, Replay, Webhook, *PAGES)


def calls():
    """Yield the name of each call, with a function of the subject that returns its method, URL and form."""
    for model, each in admins().items():
        for pattern in each.get_urls():
            if pattern.name and not pattern.name.endswith("_act") and pattern.name not in ELSEWHERE | FORBIDDEN:
                method, form = ("post", EXPORT) if pattern.name.endswith("_export") else ("get", {})
                yield (
                    pattern.name,
                    lambda s, model=model, pattern=pattern, method=method, form=form: (
                        method,
                        page(model, pattern, s),
                        form,
                    ),
                )
        for action in each.actions:
            yield f"{model}.{action}", lambda s, model=model, action=action: act(model, action, s)
            if action in each.page_actions:
                yield f"{model}.{action} (button)", lambda s, model=model, action=action: press(model, action, s)
    for model, form in (("webhook", WEBHOOK), ("apikey", KEY)):
        yield f"{model}.add", lambda s, model=model, form=form: ("post", url(model, "add"), named(s) | form)
        yield f"{model}.change", lambda s, model=model, form=form: ("post", url(model, "change", ROWS[model](s)), form)
        yield f"{model}.delete", lambda s, model=model: ("post", url(model, "delete", ROWS[model](s)), {"post": "yes"})
    yield (
        "replay.add",
        lambda s: ("post", url("replay", "add"), {"webhook": s.delivery.webhook_id, "states": "succeeded"}),
    )
    for model in ROWS:
        yield f"{model}, listed", lambda s, model=model: ("get", url(model, "changelist"), {"owner": s.owner.pk})


def url(model, name, *args):
    return reverse(f"admin:webhooks_app_{model}_{name}", args=args)


def page(model, pattern, subject):
    given = {"name": EVENT_TYPE, "part": "recent"}
    if model in ROWS:
        given["object_id"] = ROWS[model](subject)
    names = pattern.pattern.converters
    return reverse(f"admin:{pattern.name}", kwargs={name: given[name] for name in names})


def named(subject):
    """Return the fields of a form that name an owner; the member's forms ignore them."""
    return {"audience": "one", "owner": subject.owner.pk}


def row(model, action, subject):
    if model == "webhook" and action in STATES:
        return STATES[action](subject).pk
    if model == "replay":
        return REPLAYS.get(action, lambda s: s.replay)(subject).pk
    if model == "delivery" and action == "retry":
        return subject.waiting.pk
    if model == "problem" and action == "reopen":
        return subject.ignored.pk
    return ROWS[model](subject)


def form(model, action, subject):
    extra = {"event_type": EVENT_TYPE, "event_data": '{"order": "ord_1", "amount": 1}'} if action == "send_test" else {}
    if action == "link_to_pages":
        extra = {"rights": "read", "minutes": "15"}
    if action == "try_filter":
        extra = {"event_id": subject.event.pk, "filter": '{"amount": 4200}'}
    return {"confirmed": "yes", "post": "yes", **extra}


def act(model, action, subject):
    selected = {"action": action, "_selected_action": [row(model, action, subject)]}
    return "post", url(model, "changelist"), selected | form(model, action, subject)


def press(model, action, subject):
    return "post", url(model, "act", row(model, action, subject), action), form(model, action, subject)


def names():
    """Return every call for both users. The member uses the buttons, and the other one the actions of lists."""
    found = [name for name, _ in calls()]
    buttons = {name for name in found if "(button)" in name}
    lists = {name.removesuffix(" (button)") for name in buttons}
    return [
        *(f"{STAFF}: {name}" for name in found if name not in buttons),
        *(f"{MEMBER}: {name}" for name in found if name not in lists),
    ]


def problem(name):
    """Call a page, form or action for a new owner. Return what was wrong, or "" after a success."""
    user, _, name = name.partition(": ")
    subject = Subject(owner_of_member() if user == MEMBER else None)
    client = Client()
    client.force_login(get_user_model().objects.get(username=user))
    shown = LISTED[name.partition(",")[0]](subject) if ", " in name else ""
    method, path, data = dict(calls())[name](subject)
    answer = getattr(client, method)(path, data, follow=True)
    if answer.status_code != (403 if user == MEMBER and name in NOT_FOR_MEMBERS else 200):
        return f"{answer.status_code}"
    if method == "post" and data is not EXPORT:
        return refused(name, answer)
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return "" if shown in content.decode() else "not found"


def refused(name, answer):
    shown = [(each.level, str(each)) for each in (answer.context or {}).get("messages", ())]
    if errors := [text for level, text in shown if level >= messages.WARNING]:
        return "; ".join(errors)
    form = answer.context.get("adminform") or answer.context.get("form")
    if getattr(form, "errors", None):
        return str(form.errors)
    return "" if answer.redirect_chain or "try_filter" in name else "not redirected"
