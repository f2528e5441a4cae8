"""Parts of a webhook's page besides its form: latest verification, recent deliveries, charts, event types."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext

from ..event_types import registry
from ..maintenance.rollups import reading
from ..models import Delivery, Webhook
from ..pages import health
from ..pages.display import delivery_rows
from ..pages.explanation import state_of_handshake, waiting_for, why
from . import charts
from .disclosed import disclosed, disclosed_transcript
from .display import deliveries_url, delivery_urls, shows_deliveries
from .overview import window_of, windows

RECENT = 10

Context = dict[str, Any]


class Subscribed(NamedTuple):
    """An event type to which the webhook is subscribed."""

    name: str
    description: str
    url: str


def recent(request: HttpRequest, webhook: Webhook, *, site: str) -> Context:
    """Return the newest deliveries of a webhook, if the user may view deliveries."""
    if not shows_deliveries(request):
        return {"recent": []}
    newest = _deliveries(webhook).filter(kind__in=(Delivery.Kind.EVENT, Delivery.Kind.TEST))[:RECENT]
    listed = deliveries_url(site=site, webhook=webhook.pk)
    return {"recent": delivery_rows(disclosed(request, newest), url=delivery_urls(site)), "deliveries_url": listed}


def course(request: HttpRequest, webhook: Webhook) -> Context:
    """Return the health of a webhook, with charts if the user may view deliveries."""
    sentences = {"health_sentences": health.sentences(webhook)}
    if not shows_deliveries(request):
        return sentences
    window = window_of(request)
    series = reading.series(window, [webhook.pk], families=charts.COUNTED)
    return {**sentences, "windows": windows(window), **charts.shown(series, window)}


def handshake(request: HttpRequest, webhook: Webhook, *, site: str) -> Context:
    """Return the status of the latest verification, with its transcript if the user may view deliveries."""
    # Handshakes have no event. Databases without an index of handshakes find them by this condition.
    newest = _deliveries(webhook).filter(kind=Delivery.Kind.VERIFICATION, event=None)[:1]
    delivery = next(iter(disclosed(request, newest)), None)
    if delivery is None:
        return {"handshake": None, "shows_attempts": shows_deliveries(request)}
    attempts = disclosed_transcript(request, delivery, site=site)
    return {
        "handshake": delivery,
        "handshake_status": state_of_handshake(delivery, why(attempts[-1].attempt) if attempts else ""),
        "handshake_attempts": attempts,
        "handshake_waits": waiting_for(delivery, url=delivery_urls(site)),
        "shows_attempts": shows_deliveries(request),
    }


def subscribed(webhook: Webhook, *, site: str) -> list[Subscribed]:
    """Return the subscribed event types with their descriptions."""
    return [_subscribed(name, site) for name in webhook.event_types]


def _subscribed(name: str, site: str) -> Subscribed:
    if name not in registry:
        return Subscribed(name, gettext("No longer in the catalogue"), "")
    url = reverse("admin:webhooks_app_webhook_event_type", args=(name,), current_app=site)
    return Subscribed(name, registry.get(name).description, url)


def _deliveries(webhook: Webhook) -> QuerySet[Delivery]:
    rows = Delivery.objects.filter(webhook=webhook).order_by("-pk")
    return rows.select_related("event", "webhook__lane", "queue_entry").defer("event__body")
