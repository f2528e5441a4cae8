"""The demonstration's receiver: the URLs of a server of its own, which ``make run`` starts on loopback.

It stands for the programs of customers, so that they can try their webhooks without starting one. Each account has its
own URL, where POST receives and GET shows what came. The last requests to each webhook are kept in memory. The receiver
belongs to the service, which is why it knows the secrets: it reads them from the database.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template import Library
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from django.views.generic import View

from webhooks_app.conf import settings as webhooks_settings
from webhooks_app.exceptions import SecretUnreadableError, WebhookVerificationError
from webhooks_app.models import Webhook
from webhooks_app.receiver import ReceivedEvent, challenge_answer, verify

from .kept_secrets import kept_secret

MAX_ACCOUNTS, MAX_WEBHOOKS, MAX_RECEIVED = 200, 20, 100
"""Maximum number of accounts, and of webhooks and kept requests of each."""

MAX_DATA_LENGTH, MAX_TEXT_LENGTH = 4000, 200
"""Maximum number of characters of a request's data, and of each of its other texts, that are kept."""

SPARE_BYTES = 64 * 1024
"""Difference between the largest body that is read and the largest envelope that the service sends."""

REFUSED = "refused"
"""Name of an account's inbox for the requests that no webhook signed."""

KEY_FILE = "receiver-key"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
}

register = Library()


def _signer() -> Signer:
    """Return the signer of the URLs. Its key is random, because the development's SECRET_KEY is public."""
    key = kept_secret(settings.VAR_DIR / KEY_FILE, 32)
    return Signer(key=key, salt="example_project.receiver", sep=".", fallback_keys=[])


def url_of(account: Any) -> str:
    """Return the URL of an account's receiver, which nobody else can guess; "" if the receiver does not run."""
    return f"{settings.RECEIVER_URL}{_signer().sign(account.pk)}/" if settings.RECEIVER_URL else ""


@register.filter
def uses_receiver(webhook: Webhook) -> bool:
    """Return True if a webhook has the URL of its account's receiver."""
    return webhook.owner is not None and webhook.url == url_of(webhook.owner)


class Received(NamedTuple):
    at: datetime
    type: str
    id: str
    problem: str
    """The reason why this is not a genuine webhook; "" if the signature was verified."""
    data: str
    status: int


class Inbox(NamedTuple):
    """What a webhook received, latest first, and what it answers."""

    is_failing: bool
    received: tuple[Received, ...]


class Inboxes:
    """The last requests to the accounts that used theirs last, by the signed part of the account's URL and a name."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[str, deque[tuple[str, Received]]] = OrderedDict()
        self._failing: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, signed: str, name: str) -> Inbox:
        with self._lock:
            kept = self._accounts.get(signed, ())
            return Inbox(name in self._failing, tuple(each for owner, each in kept if owner == name))

    def add(self, signed: str, name: str, received: Received) -> None:
        with self._lock:
            self._accounts.setdefault(signed, deque(maxlen=MAX_RECEIVED)).appendleft((name, received))
            self._accounts.move_to_end(signed)
            if len(self._accounts) > MAX_ACCOUNTS:
                self._accounts.popitem(last=False)

    def switch(self, webhook_id: str, *, is_failing: bool) -> None:
        with self._lock:
            self._failing.pop(webhook_id, None)
            if is_failing:
                self._failing[webhook_id] = None
            if len(self._failing) > MAX_ACCOUNTS * MAX_WEBHOOKS:
                self._failing.popitem(last=False)


inboxes = Inboxes()


def webhooks_of(signed: str) -> tuple[list[Webhook], bool]:
    """Return an account's latest webhooks with this URL, and whether it has more. Raises Http404 for any other URL."""
    try:
        owner: Any = _signer().unsign(signed)
    except BadSignature:
        raise Http404 from None
    rows = Webhook.objects.existing().filter(owner=owner, url__endswith=f"/{signed}/").order_by("-pk")
    found = list(rows[: MAX_WEBHOOKS + 1])
    return found[:MAX_WEBHOOKS], len(found) > MAX_WEBHOOKS


@method_decorator(csrf_exempt, name="dispatch")
class ReceiverView(View):
    """Receives the requests to an account's URL, and shows the last ones."""

    def post(self, request: HttpRequest, signed: str) -> HttpResponse:
        webhook, event, problem = verified(request, *webhooks_of(signed))
        name = webhook.pk if webhook else REFUSED
        answer = _answer(event, problem, is_failing=inboxes.get(signed, name).is_failing)
        data = json.dumps(event.data, indent=2, ensure_ascii=False)[:MAX_DATA_LENGTH] if event else ""
        texts = (event.type, event.id or "", problem) if event else ("", "", problem)
        kind, event_id, problem = (text[:MAX_TEXT_LENGTH] for text in texts)
        received = Received(timezone.now(), kind, event_id, problem, data, answer.status_code)
        inboxes.add(signed, name, received)
        return answer

    def get(self, request: HttpRequest, signed: str) -> HttpResponse:
        webhooks, has_more = webhooks_of(signed)
        context = {
            "signed": signed,
            "webhooks": [(each, inboxes.get(signed, each.pk), _page_of(each)) for each in webhooks],
            "refused": inboxes.get(signed, REFUSED).received,
            "accounts": MAX_ACCOUNTS,
            "maximum": MAX_WEBHOOKS if has_more else 0,
        }
        return TemplateResponse(request, "example_project/receiver.html", context, headers=HEADERS)


def verified(
    request: HttpRequest, webhooks: Sequence[Webhook], has_more: bool
) -> tuple[Webhook | None, ReceivedEvent | None, str]:
    """Return the webhook whose secret signed a request, with its event; or None, and the reason."""
    max_bytes = webhooks_settings.MAX_ENVELOPE_BYTES + SPARE_BYTES
    body = request.read(max_bytes + 1)
    if len(body) > max_bytes:
        while request.read(SPARE_BYTES):  # Django's server would read the rest in one piece.
            pass
        return None, None, f"The body is larger than {max_bytes:,} bytes."
    problem = "No webhook with this URL has a usable secret." if webhooks else "No webhook has this URL."
    for webhook in webhooks:
        try:
            if keys := webhook.verification_keys:
                return webhook, verify(body, request.headers, keys), ""
        except (WebhookVerificationError, SecretUnreadableError) as error:
            problem = str(error)
    if has_more:
        problem = f"The receiver knows only the latest {MAX_WEBHOOKS} webhooks with this URL. {problem}"
    return None, None, problem


def _answer(event: ReceivedEvent | None, problem: str, *, is_failing: bool) -> JsonResponse:
    if event is None:
        return JsonResponse({"error": problem}, status=400)
    if is_failing:
        return JsonResponse({"error": "The customer told this receiver to fail."}, status=503)
    return JsonResponse(challenge_answer(event) if event.is_verification else {"status": "received"})


def _page_of(webhook: Webhook) -> str:
    """Return the URL of a webhook's page, which is on the server of the service."""
    args = (webhook.owner_id, webhook.pk)
    return f"{settings.BASE_URL}{reverse('webhooks_portal:webhook', args=args, urlconf='example_project.urls')}"


@require_POST
def switch(request: HttpRequest, signed: str, pk: str) -> HttpResponse:
    """Let the receiver of a webhook fail, or work again."""
    if pk not in [webhook.pk for webhook in webhooks_of(signed)[0]]:
        raise Http404
    inboxes.switch(pk, is_failing="fail" in request.POST)
    return HttpResponseRedirect(reverse("receiver", args=(signed,)))


urlpatterns = [
    path("<str:signed>/", ReceiverView.as_view(), name="receiver"),
    path("<str:signed>/<str:pk>/", switch, name="receiver-switch"),
]
